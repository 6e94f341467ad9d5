/** Names that people may choose where a form asks for one. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import { get } from '../api.ts';
import { useLoaded } from '../loading.ts';

type Suggestions = Readonly<Record<string, readonly string[]>>;

/** Of members of maps, by what the map is called. The platform has none to choose from. */
export function useSuggestions(tenantId: string): Suggestions {
  const { data = {} } = useLoaded(
    `suggestions ${tenantId}`,
    async (aborted): Promise<Suggestions> => {
      if (tenantId === '') return {};
      const of = `/tenants/${tenantId}`;
      const [contexts, effective] = await Promise.all([
        get<ResultOf<'tenant-config.contexts'>>(`${of}/contexts`, aborted),
        get<ResultOf<'config-resolver.resolve'>>(`${of}/config/effective`, aborted),
      ]);
      return { ServiceOverrides: contexts.service_types, Bounds: Object.keys(effective.values) };
    },
  );
  return data;
}
