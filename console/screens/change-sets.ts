/** Change sets as the API has them: whose they are, and what somebody may do with one. */
import type { ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { nameOf } from '../people.ts';
import { decides, hasRole, isPlatformAdmin, user } from '../session.ts';
import {
  documentAt,
  documentKinds,
  mayDelete,
  mayWrite,
  titleOf,
  type DocumentKind,
} from './document-kinds.ts';
import { platformKinds } from './platform-kinds.ts';

export type ChangeSet = ResultOf<'tenant-config.changesets.get'>;
export type ApplyWhen = ChangeSet['apply'];
export type ChangeSetEdit = ParamsOf<'tenant-config.changesets.edit'>['body'];

/** Whose configuration and change sets: a tenant's, or the platform's. */
export interface Owner {
  /** Empty for the platform. */
  readonly tenantId: string;
  /** Of the API, for the configuration and for its change sets. */
  readonly base: string;
  readonly address: string;
  /** Of the screens of the same owner. */
  readonly screens: string;
  readonly kinds: readonly DocumentKind[];
}

export function ownerOf(tenantId: string): Owner {
  const of = tenantId === '' ? '' : `/tenants/${tenantId}`;
  return {
    tenantId,
    base: `${of}/config`,
    address: `${of}/config/changesets`,
    screens: tenantId === '' ? '/platform' : of,
    kinds: tenantId === '' ? platformKinds : documentKinds,
  };
}

/** The owner of the change sets that are opened at an address of the API. */
export const ownerAt = (address: string): Owner =>
  ownerOf(/^\/tenants\/([^/]+)\//.exec(address)?.[1] ?? '');

export const screenOfSet = ({ screens }: Owner, id: string): string =>
  `${screens}/change-sets/${id}`;

/** While it may still be applied. */
export const isOpen = ({ state }: ChangeSet): boolean =>
  ['draft', 'pending', 'approved', 'scheduled', 'stale', 'suspended'].includes(state);

/** It was applied without approvals, and nobody else has looked at that. */
export const isToReview = ({ break_glass: emergency }: ChangeSet): boolean =>
  emergency !== undefined && emergency.reviewed_by === null;

const isOwn = ({ authors }: ChangeSet): boolean => authors.some(({ id }) => id === user.value?.id);

/** Whether the one who looks is asked to approve, as no visitor is. */
export const isDecider = ({ tenantId }: Owner): boolean =>
  tenantId === '' ? isPlatformAdmin.value : decides();

/** As far as this page knows: the server also asks for the groups that approve it. */
export const mayDecide = (set: ChangeSet, owner: Owner): boolean =>
  set.state === 'pending' && isDecider(owner) && !isOwn(set) && !hasApproved(set);

export const hasApproved = ({ approved_by: approvals }: ChangeSet): boolean =>
  approvals.some(({ id }) => id === user.value?.id);

export const mayReview = (set: ChangeSet, owner: Owner): boolean =>
  isToReview(set) && isDecider(owner) && !isOwn(set) && set.break_glass?.by !== user.value?.id;

export const waitsForMe = (set: ChangeSet, owner: Owner): boolean =>
  mayDecide(set, owner) || mayReview(set, owner);

/** Whether the caller could write each of its documents themselves. */
export const mayWriteAll = ({ items }: ChangeSet, { kinds }: Owner): boolean =>
  items.every(({ action, path }) => {
    const found = documentAt(path, kinds);
    return found !== undefined && (action === 'delete' ? mayDelete : mayWrite)(found.kind);
  });

export const mayBreakGlass = ({ tenantId }: Owner): boolean =>
  tenantId === '' ? isPlatformAdmin.value : hasRole('tenant_admin');

/** A write that was proposed as it was is called by its address, which people do not read. */
export function titleOfSet({ title }: ChangeSet, { kinds }: Owner): string {
  const [, action, path = ''] = /^(put|patch|delete) (\/\S+)$/.exec(title) ?? [];
  const found = documentAt(path, kinds);
  if (!found) return title;
  return `${action === 'delete' ? 'Delete' : 'Change'} ${titleOf(found.kind, found.id)}`;
}

/** What somebody who is named by id alone is called: by the set itself, where it says so. */
export function nameIn({ authors, approved_by: approvals }: ChangeSet, id: string): string {
  const person = [...authors, ...approvals].find((each) => each.id === id);
  return person?.name ?? nameOf(id);
}
