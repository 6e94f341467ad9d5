/**
 * Tokens that workloads got for those of their platforms. They name the rule and the issuer that
 * they were given by, and end with either.
 */
import type { KeyScope } from '../contracts/roles.ts';
import { createSignedTokens, headerOf, type TokenSettings } from './signed-tokens.ts';

export interface WorkloadClaims {
  /** The service account. */
  readonly sub: string;
  /** Its tenant. */
  readonly tid: string;
  readonly rule: string;
  readonly issuer: string;
  readonly scopes: readonly KeyScope[];
}

const kind = {
  label: 'workload token',
  type: 'strata-workload+jwt',
  texts: ['sub', 'tid', 'rule', 'issuer'],
};

/** By its header alone, which anybody can write. */
export const looksLikeWorkloadToken = (token: string): boolean => headerOf(token).typ === kind.type;

/** Throws without SECRET_KEY. */
export const createWorkloadTokens = (settings: TokenSettings) =>
  createSignedTokens<WorkloadClaims>(settings, kind);
