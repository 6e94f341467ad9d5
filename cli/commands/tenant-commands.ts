/**
 * Commands about tenants themselves, for whoever administers the platform. None acts on a tenant
 * that is not named.
 */
import type { ResultOf } from '../../shared/contracts/index.ts';
import type { Command, Input } from '../command.ts';
import { columns } from '../output.ts';
import { countOf, given, tenantId, tenantIds } from '../typed.ts';

type Tenant = ResultOf<'tenant-config.tenants.get'>;

const rowOf = ({ name, id, status, erase_at }: Tenant) => ({
  name,
  id,
  status,
  ...(erase_at !== null && { erased_from: erase_at }),
});

const complete = { name: tenantIds };

const list: Command = {
  name: 'tenants list',
  parameters: '[word]',
  summary: 'all, or those with the word in their names',
  flags: { limit: { type: 'string', summary: 'how many, 20 by default' } },
  async run({ session, args: { word }, flags, answer }) {
    const params = given({ q: word, limit: countOf(flags.limit, 20) });
    const page = await session.call('tenant-config.tenants.list', params);
    answer(page, () => columns(page.items.map(rowOf)));
  },
};

async function become(
  { session, args: { name }, answer }: Input,
  status: Tenant['status'],
): Promise<void> {
  const params = { tenant_id: await tenantId(session, name!), body: { status } };
  const tenant = await session.call('tenant-config.tenants.patch', params);
  answer(tenant, () => columns([rowOf(tenant)]));
}

const disable: Command = {
  name: 'tenants disable',
  parameters: '<name>',
  summary: 'no one can act in it from then on',
  complete,
  run: (input) => become(input, 'disabled'),
};

const enable: Command = {
  name: 'tenants enable',
  parameters: '<name>',
  summary: 'its members can act again; takes its deletion back',
  complete,
  run: (input) => become(input, 'active'),
};

const remove: Command = {
  name: 'tenants delete',
  parameters: '<name>',
  summary: 'have a disabled tenant erased later; until then enabling it takes that back',
  complete,
  async run({ session, args: { name }, answer }) {
    const params = { tenant_id: await tenantId(session, name!) };
    const tenant = await session.call('tenant-config.tenants.delete', params);
    answer(tenant, () => columns([rowOf(tenant)]));
  },
};

export const tenantCommands: readonly Command[] = [list, disable, enable, remove];
