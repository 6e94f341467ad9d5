/** Which fields of documents a folder owns, for commands that apply, propose and compare folders. */
import type { Flag, Input } from '../command.ts';
import { printableLine } from '../output.ts';
import { allItems } from '../pages.ts';
import { given, platformWord, textOf } from '../typed.ts';
import type { ManagedField } from '../../shared/contracts/managed-fields.ts';
import { leavesOf } from '../../shared/schema/diff.ts';
import { pathOf, type Documents } from './documents.ts';
import type { HttpSession } from './http-session.ts';

export const managedBy: Flag = {
  type: 'string',
  summary:
    'what the folder is called, such as its repository: it then owns the fields that it sets',
};
export const ownerFlags: Readonly<Record<string, Flag>> = {
  'managed-by': managedBy,
  'take-over': {
    type: 'string',
    summary:
      'owners, with commas, whose fields are changed nevertheless; its own name for what others took over',
  },
};

export const claimsOf = (flags: Input['flags']) =>
  given({ managed_by: textOf(flags['managed-by']), take_over: textOf(flags['take-over']) }) as {
    readonly managed_by?: string;
    readonly take_over?: string;
  };

/** By the path of the document. */
export type Managed = ReadonlyMap<string, readonly ManagedField[]>;

/** All fields that folders own. */
export async function managedFields(session: HttpSession, tenant: string): Promise<Managed> {
  const documents =
    tenant === platformWord
      ? await allItems(session, 'global-config.managed-fields.list', {})
      : await allItems(session, 'tenant-config.managed-fields.list', { tenant_id: tenant });
  return new Map(documents.map(({ path, fields }) => [path, fields]));
}

/** Of these documents, which the folder does not own yet as it could. */
export const unclaimed = (
  wanted: Documents,
  managed: Managed,
  tenant: string,
  folder: string,
): string[] =>
  [...wanted].flatMap(([name, body]) => {
    const fields = managed.get(pathOf(name, tenant)) ?? [];
    const settled = new Set(
      fields
        .filter(({ owner, taken_by: taker }) => owner !== folder || taker === undefined)
        .map(({ path }) => path),
    );
    return leavesOf(body).every((path) => settled.has(path)) ? [] : [name];
  });

interface Taken {
  readonly document: string;
  readonly fields: readonly ManagedField[];
}

/** What of these documents was taken over by hand, of one folder or of any. */
export const takenOver = (
  names: Iterable<string>,
  managed: Managed,
  tenant: string,
  folder?: string,
): Taken[] =>
  [...names].flatMap((document) => {
    const fields = (managed.get(pathOf(document, tenant)) ?? []).filter(
      ({ owner, taken_by: taker }) =>
        taker !== undefined && (folder === undefined || owner === folder),
    );
    return fields.length === 0 ? [] : [{ document, fields }];
  });

export const takenShown = (taken: readonly Taken[]): string[] =>
  taken.flatMap(({ document, fields }) =>
    fields.map(({ path, owner, taken_by: by, taken_by_name: name, taken_at: at }) =>
      printableLine(
        `taken over from ${owner}: ${document} ${path || '/'} by ${name ?? by} at ${at}`,
      ),
    ),
  );
