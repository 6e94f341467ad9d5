/**
 * The tools that agents have. Each is a contract: its schema, who may call it, its errors and its
 * audit are those of the contract, and a narrow API key reaches no further by a tool than by a
 * route. None of them decides an approval or writes a value: `propose_change` asks people.
 */
import type { Tool as McpTool } from '@modelcontextprotocol/server';
import type { ServiceBroker } from 'moleculer';
import type { Caller } from '../../shared/access.ts';
import { callAs, type CallOptions } from '../../shared/contract-runtime/request.ts';
import { isRead, type Contract } from '../../shared/contracts/contract.ts';
import { contractTable, type ActionName, type ParamsOf } from '../../shared/contracts/index.ts';
import { codeOf, invalid, statusOf, StrataError } from '../../shared/errors.ts';
import { refusalBy } from '../http/authenticate.ts';

interface Tool {
  readonly title: string;
  readonly description: string;
  readonly action: ActionName;
  /** Of the contract's parameters in path and query, and of its body; all by default. */
  readonly takes?: readonly string[];
  /** What the tool says by itself. */
  readonly fixed?: Readonly<Record<string, unknown>>;
}

const place = ['tenant_id', 'agent_type', 'service_type', 'service_id'];

export const tools = {
  effective: {
    title: 'Effective configuration',
    description: 'The values that hold for an agent, a service type or a service instance.',
    action: 'config-resolver.resolve',
    takes: place,
  },
  explain: {
    title: 'Why values hold',
    description:
      'The same with the layer, document, revision and author that decided each value, and what guardrails changed.',
    action: 'config-resolver.resolve',
    takes: [...place, 'as_of'],
    fixed: { explain: true },
  },
  decide: {
    title: 'Whether automation may act',
    description:
      'allow, approval_required or deny, with every limit that applies. Starts nothing and charges nothing.',
    action: 'config-resolver.decide',
  },
  start_automation: {
    title: 'Start an automation',
    description:
      'Takes a slot and charges budgets where limits allow it; else asks people, or is denied. Repeat it with the same idempotency_key.',
    action: 'notifier.automations.start',
  },
  automation_status: {
    title: 'State of an automation',
    description: 'Whether it waits for people, runs, was denied or has ended.',
    action: 'notifier.automations.get',
    takes: ['tenant_id', 'automation_id'],
  },
  propose_change: {
    title: 'Propose a change',
    description:
      'Submits writes of configuration as a change set that people approve or reject. Writes nothing by itself.',
    action: 'tenant-config.changesets.create',
    takes: ['tenant_id', 'title', 'reason', 'items'],
    fixed: { submit: true },
  },
  history: {
    title: 'What changed',
    description: 'Changes of the configuration, newest first: who, when, why.',
    action: 'tenant-config.history.list',
  },
} as const satisfies Readonly<Record<string, Tool>>;

export type ToolName = keyof typeof tools;
export const isTool = (name: string): name is ToolName => Object.hasOwn(tools, name);

type Properties = NonNullable<McpTool['inputSchema']['properties']>;

interface ObjectSchema {
  readonly properties: Readonly<Record<string, object>>;
  readonly required?: readonly string[];
}

const bodyOf = ({ params }: Contract): ObjectSchema | undefined =>
  params.properties.body as ObjectSchema | undefined;

/** Parameters that have a place in the address; conditions in headers are no tool's. */
const addressed = ({ rest }: Contract): readonly string[] => [...rest!.pathParams, ...rest!.query];

/** Arguments are those of path, query and body side by side. */
function inputSchemaOf(name: ToolName) {
  const { action, takes, fixed = {} }: Tool = tools[name];
  const contract = contractTable[action] as Contract;
  const { params } = contract;
  const ofAddress = addressed(contract).map((each) => [each, params.properties[each]!] as const);
  const body = bodyOf(contract);
  const all = [...ofAddress, ...Object.entries(body?.properties ?? {})];
  const taken = all.filter(
    ([each]) => !Object.hasOwn(fixed, each) && (takes === undefined || takes.includes(each)),
  );
  // The tenant is that of the credential where it is not named.
  const required = [...(params.required ?? []), ...(body?.required ?? [])].filter(
    (each) => each !== 'tenant_id' && taken.some(([known]) => known === each),
  );
  const properties = JSON.parse(JSON.stringify(Object.fromEntries(taken))) as Properties;
  return { type: 'object' as const, properties, required, additionalProperties: false };
}

/** As MCP lists them. */
export const toolList = (Object.keys(tools) as ToolName[]).map((name) => {
  const { title, description, action } = tools[name];
  const reads = isRead(contractTable[action]);
  return {
    name,
    title,
    description,
    inputSchema: inputSchemaOf(name),
    annotations: { readOnlyHint: reads, destructiveHint: false, openWorldHint: false },
  };
});

/** Who calls, and what is left of the request's time. */
export type ToolCall = Pick<CallOptions, 'requestId' | 'client' | 'timeout'> & {
  readonly caller: Caller;
  /** From before an outage: then nothing is written. */
  readonly isStale: boolean;
};

type Arguments = Readonly<Record<string, unknown>>;

/** Answers what the route of the contract does; throws its errors. */
export async function callTool(
  broker: ServiceBroker,
  name: ToolName,
  given: Arguments,
  call: ToolCall,
): Promise<unknown> {
  const { action, fixed }: Tool = tools[name];
  refuseUnknown(name, given);
  const contract = contractTable[action] as Contract;
  if (call.isStale && !isRead(contract))
    throw new StrataError(
      'service_unavailable',
      'Your credential cannot be checked now, so nothing is written. Try again.',
    );
  const params = { ...paramsOf(contract, given, call.caller), ...fixed };
  const { isStale, ...options } = call;
  const result = await callAs(broker, action, params as ParamsOf<typeof action>, options).catch(
    (error: unknown) => {
      throw statusOf(codeOf(error)) === 403 ? refusalBy(isStale, error) : error;
    },
  );
  // What a credential of before an outage reads is marked, as it is over REST.
  return { ...shown(contract, result as Arguments), ...(isStale && { stale: true }) };
}

function refuseUnknown(name: ToolName, given: Arguments): void {
  const { properties } = inputSchemaOf(name);
  const unknown = Object.keys(given).filter((each) => !Object.hasOwn(properties, each));
  if (unknown.length > 0)
    throw invalid(
      unknown.map((each) => ({
        path: `/${each}`,
        message: `is no argument of ${name}, which takes ${Object.keys(properties).join(', ')}`,
      })),
    );
}

function paramsOf(contract: Contract, given: Arguments, { tenant_id }: Caller): Arguments {
  const inAddress = new Set(addressed(contract));
  const entries = Object.entries(given);
  const params = {
    ...(tenant_id !== null && { tenant_id }),
    ...Object.fromEntries(entries.filter(([name]) => inAddress.has(name))),
  };
  if (!bodyOf(contract)) return params;
  return { ...params, body: Object.fromEntries(entries.filter(([name]) => !inAddress.has(name))) };
}

/** What the bus says of the environment is shown in an entity tag alone. */
function shown({ response }: Contract, result: Arguments): Arguments {
  if (response !== 'effective') return result;
  const { environment: _environment, ...rest } = result;
  return rest;
}
