/**
 * The items of a plan as the writes that they are: found by their paths, and checked by those
 * writes' own contracts.
 */
import type { Contract } from '../../../shared/contracts/contract.ts';
import { contractTable } from '../../../shared/contracts/index.ts';
import type { PlanItem } from '../../../shared/contracts/plan.ts';
import {
  parametersIn,
  pathOf,
  problemOfItem,
  templateOf,
} from '../../../shared/documents/document-paths.ts';
import { writeVerbs, type WriteVerb } from '../../../shared/documents/document.ts';
import type { Claims } from '../../../shared/documents/managed-fields.ts';
import type { Problem } from '../../../shared/errors.ts';
import { problemsOf } from '../../../shared/schema/validate.ts';

/** The platform's kinds of documents, by their names in actions. */
export const plannedKinds = ['entries', 'service-types', 'bounds', 'budgets', 'freezes'] as const;
export type PlannedKind = (typeof plannedKinds)[number];

export interface PlannedWrite {
  readonly kind: PlannedKind;
  readonly verb: WriteVerb;
  /** What the contract of the write takes. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly contract: Contract;
}

export const contractOfWrite = (kind: PlannedKind, verb: WriteVerb): Contract =>
  contractTable[`global-config.${kind}.${verb}`];

/** Each path as its contract has it. */
const templates = plannedKinds.map((kind) => ({
  kind,
  template: templateOf(`global-config.${kind}`),
}));

/** Which kind of document an item writes. */
export const kindOfPath = (path: string): PlannedKind | undefined =>
  templates.find(({ template }) => parametersIn(path, template) !== undefined)?.kind;

/**
 * Where the path is that of no document of the platform, or the write's contract refuses it: what
 * is wrong.
 */
export function plannedWrite(
  { action, path, body, if_match }: PlanItem,
  options: Claims & { readonly reason?: string; readonly dry_run?: true },
): PlannedWrite | { readonly problems: Problem[] } {
  const verb = writeVerbs.find((each) => each === action)!;
  for (const { kind, template } of templates) {
    const address = parametersIn(path, template);
    if (address === undefined) continue;
    const params = {
      ...address,
      ...options,
      ...(body !== undefined && { body }),
      ...(if_match !== undefined && { if_match }),
    };
    const contract = contractOfWrite(kind, verb);
    const problems = problemsOf(contract.params, params);
    return problems.length > 0
      ? { problems: problems.map((problem) => problemOfItem(problem, address)) }
      : { kind, verb, params, contract };
  }
  const message = `is not the path of a document of the platform; there are ${templates.map(({ template }) => template).join(', ')}`;
  return { problems: [{ path: '/path', message }] };
}

/** The item that is this write, for one that comes by its own route. */
export function itemOf(
  kind: PlannedKind,
  verb: WriteVerb,
  params: { readonly body?: unknown; readonly if_match?: string },
): PlanItem {
  const { body, if_match } = params;
  return {
    action: verb,
    path: pathOf(`global-config.${kind}`, params),
    ...(body !== undefined && { body }),
    ...(if_match !== undefined && { if_match }),
  };
}
