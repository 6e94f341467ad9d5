/**
 * What every node of Strata, whatever it hosts, answers from its own memory by the rules of a
 * service.
 */
import type { DerivedReads } from '../shared/contract-runtime/derived-reads.ts';
import { derivedDecision } from './config-resolver/actions/decide.ts';

export const derivedReads: DerivedReads = { 'config-resolver.decide': derivedDecision };
