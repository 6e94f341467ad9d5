/** The one currency in which a tenant's budgets are. */
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { currencyIn } from '../../../shared/budgets/budgets-document.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { codeOf, StrataError } from '../../../shared/errors.ts';

type Calls = Pick<Request, 'call'>;
type Stored = ResultOf<'tenant-config.budgets.get'>;

/** Those that are written now, and so say nothing: the tenant's own document, or one project. */
type Written = { readonly project?: string } | 'budgets';

/**
 * The platform's, else the tenant's, else that of projects whose budget is enforced, from this
 * node's memory; undefined where no other budget says one.
 */
export async function currencyBeside(
  tenantId: string,
  { call }: Calls,
  written: Written,
): Promise<string | undefined> {
  const ofPlatform = currencyIn(await fresh(call('global-config.budgets.get', {})));
  if (ofPlatform !== undefined) return ofPlatform;
  if (written !== 'budgets') {
    const own = currencyIn(await fresh(call('tenant-config.budgets.get', { tenant_id: tenantId })));
    if (own !== undefined) return own;
  }
  const { items, stale } = await call('tenant-config.projects.enforced', { tenant_id: tenantId });
  if (stale) throw unknown();
  const others = items.filter(
    ({ document }) => written === 'budgets' || document.project_id !== written.project,
  );
  return others[0]?.document.budget?.currency;
}

/** Nothing where nothing is stored. */
async function fresh(asked: Promise<Stored>): Promise<Stored['document']> {
  try {
    const { document, stale } = await asked;
    if (!stale) return document;
  } catch (error) {
    if (codeOf(error) === 'not_found') return {};
    throw error;
  }
  throw unknown();
}

const unknown = (): StrataError =>
  new StrataError(
    'service_unavailable',
    'The currency of other budgets cannot be checked now, so nothing is written. Try again.',
  );
