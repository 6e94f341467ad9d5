/** Names that people may choose where a form asks for one. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import { ofTenant, tenantShown } from '../address.ts';
import { get } from '../api.ts';
import { useLoaded } from '../loading.ts';
import { limits } from '../known-values.ts';

type Suggestions = Readonly<Record<string, readonly string[]>>;

/** Of members of maps, by what the map is called. The platform has no values to choose from. */
export function useSuggestions(): Suggestions {
  const { data = {} } = useLoaded('suggestions', async (aborted): Promise<Suggestions> => {
    if (tenantShown.value === '') return { Bounds: limits };
    const of = ofTenant();
    const [contexts, effective] = await Promise.all([
      get<ResultOf<'tenant-config.contexts'>>(`${of}/contexts`, aborted),
      get<ResultOf<'config-resolver.resolve'>>(`${of}/config/effective`, aborted),
    ]);
    // What limits automation is what people guard first.
    const keys = new Set([...limits, ...Object.keys(effective.values)]);
    return { ServiceOverrides: contexts.service_types, Bounds: [...keys] };
  });
  return data;
}
