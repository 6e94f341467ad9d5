/**
 * What every node of Strata, whatever it hosts, answers from its own memory by the rules of a
 * service.
 */
import type { DerivedReads } from '../shared/contract-runtime/derived-reads.ts';
import { derivedDecision } from './config-resolver/actions/decide.ts';
import { DecisionRecorder } from './config-resolver/actions/recording.ts';

export { DecisionRecorder };

/** With the memory that a node has for them. */
export const derivedReads = (recorder = new DecisionRecorder()): DerivedReads => ({
  'config-resolver.decide': derivedDecision(recorder),
});
