/** The items of a change set as the writes that they are, checked by those writes' own contracts. */
import { checkAccess, requirePower, type Caller } from '../access.ts';
import type { Work } from '../commits/commit.ts';
import type { ChangeSetItem } from '../contracts/change-sets.ts';
import { powerOf } from '../contracts/consequences.ts';
import type { Contract } from '../contracts/contract.ts';
import { contractOf } from '../contracts/index.ts';
import type { Request } from '../contract-runtime/request.ts';
import { parametersIn, problemOfItem, templateOf } from '../documents/document-paths.ts';
import type { AllDocuments, Attempt, DocumentActions } from '../documents/document.ts';
import type { Claims } from '../documents/managed-fields.ts';
import { codeOf, invalid, StrataError, type ErrorData, type Problem } from '../errors.ts';
import { mergePatchBetween } from '../schema/diff.ts';
import { problemsOf } from '../schema/validate.ts';
import { concealSecrets, sealedTexts } from '../security/document-secrets.ts';
import { onBase } from './rules.ts';
import type { StoredItem } from './schema.ts';

export interface ItemWrite {
  readonly documents: DocumentActions<object, unknown>;
  readonly contract: Contract;
  /** What the contract of the write takes. */
  readonly params: Readonly<Record<string, unknown>>;
}

/** A write as it is proposed, which may also be one of what is not there yet. */
export type ProposedItem = ChangeSetItem & { readonly if_none_match?: '*' };
type Named = Pick<ChangeSetItem, 'action' | 'path'>;

/** Undefined where it is the path of no document that this tenant, or the platform, has. */
function found(all: AllDocuments, { action, path }: Named, tenantId: string | null) {
  for (const documents of all) {
    const address = parametersIn(path, templateOf(documents.kind.actions));
    const contract = contractOf(`${documents.kind.actions}.${action}`);
    if (address === undefined || contract === undefined) continue;
    if ((address.tenant_id ?? null) === tenantId) return { documents, contract, address };
  }
  return undefined;
}

/** Throws 422 for what is no write of a document, by its place among the items. */
export function writesOf(
  all: AllDocuments,
  items: readonly ProposedItem[],
  tenantId: string | null,
): ItemWrite[] {
  const problems: Problem[] = [];
  const writes: ItemWrite[] = [];
  const paths = new Set<string>();
  for (const [index, item] of items.entries()) {
    const problem = (path: string, message: string): void =>
      void problems.push({ path: `/items/${index}${path}`, message });
    const write = found(all, item, tenantId);
    if (!write) {
      problem('/path', `is not the path of a document that takes ${item.action}`);
      continue;
    }
    const { documents, contract, address } = write;
    const name = `${documents.kind.actions} ${JSON.stringify(address)}`;
    if (paths.has(name)) problem('/path', 'is of a document that another item writes');
    paths.add(name);
    const { body, if_match, if_none_match } = item;
    const params = {
      ...address,
      ...(body !== undefined && { body }),
      ...(if_match !== undefined && { if_match }),
      ...(if_none_match !== undefined && { if_none_match }),
    };
    for (const each of problemsOf(contract.params, params)) {
      const { path, message } = problemOfItem(each, address);
      problem(path, message);
    }
    writes.push({ documents, contract, params });
  }
  if (problems.length > 0) throw invalid(problems);
  return writes;
}

/** The write of an item that was checked when it was proposed. */
export function writeOf(
  all: AllDocuments,
  item: Pick<StoredItem, 'action' | 'path' | 'body'>,
  tenantId: string | null,
): ItemWrite {
  const write = found(all, item, tenantId);
  if (!write) throw new StrataError('conflict', `${item.path} is no document any more.`);
  return {
    ...write,
    params: { ...write.address, ...(item.body !== undefined && { body: item.body }) },
  };
}

/** Throws 403 where the caller could not make each write themselves. */
export function requireAccess(writes: readonly ItemWrite[], caller: Caller): void {
  for (const { contract, params } of writes) checkAccess(contract, caller, params);
}

/** Throws 403 where a decision about these writes takes a recent sign-in that the caller lacks. */
export function requirePowers(writes: readonly ItemWrite[], caller: Caller): void {
  for (const { contract, params } of writes) {
    const power = powerOf(contract.leadsTo, params);
    if (power !== undefined) requirePower(caller, power);
  }
}

const requestOf = ({ contract, params }: ItemWrite, request: Request): Request => ({
  ...request,
  keys: contract.drops?.(params) ?? [],
  // The answer of the change set is judged, and none of a single write is given.
  checkAnswer: () => undefined,
});

/** What each write would do, in order, to be undone. */
export const trialsOf = (
  writes: readonly ItemWrite[],
  items: readonly ChangeSetItem[],
  claims: Claims,
  request: Request,
): Promise<Work<Attempt<unknown>>[]> =>
  Promise.all(
    writes.map(async (write, index) => {
      const { documents, params } = write;
      const trial = { ...params, ...claims, dry_run: true };
      const work = await documents.prepare(items[index]!.action, trial, requestOf(write, request));
      return named(work, index, items[index]!);
    }),
  );

/** The writes of what was approved, each on its base. */
export const placingsOf = (
  all: AllDocuments,
  items: readonly StoredItem[],
  tenantId: string | null,
  said: Claims & { readonly reason: string },
  request: Request,
): Promise<Work<Attempt<unknown>>[]> =>
  Promise.all(
    items.map(async (item, index) => {
      const write = writeOf(all, item, tenantId);
      const { body, ...address } = write.params;
      const params = { ...address, ...onBase(item), ...said };
      const sent = { verb: item.action, ...(body !== undefined && { body }) };
      const own = requestOf(write, request);
      return named(await write.documents.place(params, own, item.after, sent), index, item);
    }),
  );

/**
 * An item as it would be proposed now. Of one whose body was not kept, for its secrets, it is what the
 * stored documents say; masks in it keep the secrets of now.
 */
export function rebasedItem(
  { action, path, body, before, after }: StoredItem,
  index: number,
): ProposedItem {
  if (action === 'delete') return { action, path };
  if (body !== undefined) return { action, path, body };
  const known = new Set(sealedTexts(before));
  if (sealedTexts(after).some((text) => !known.has(text)))
    throw new StrataError(
      'conflict',
      `Item ${index} has a new secret, which is not proposed again. Edit the items, and give it once more.`,
    );
  const [was, is] = [concealSecrets(before), concealSecrets(after)];
  return { action, path, body: action === 'patch' ? mergePatchBetween(was, is) : is };
}

/** An error of it says of which item it is, and of which document. */
const named =
  (work: Work<Attempt<unknown>>, index: number, { path }: Named): Work<Attempt<unknown>> =>
  (...given) =>
    work(...given).catch((error: unknown) => {
      throw ofItem(error, index, path);
    });

/** What is said of all items together. */
const saidOfAll = new Set(['/managed_by', '/take_over', '/until']);

function ofItem(error: unknown, index: number, document: string): unknown {
  if (!(error instanceof StrataError)) return error;
  const { errors, managed_fields } = error.data as ErrorData;
  if (errors)
    return invalid(
      errors.map(({ path, message }) => ({
        path: saidOfAll.has(path) ? path : `/items/${index}/body${path}`,
        message,
      })),
    );
  return new StrataError(codeOf(error), `Item ${index}, ${document}: ${error.message}`, {
    cause: error,
    ...(managed_fields && { managed_fields }),
  });
}
