/**
 * What the document says in prose: the introduction, and the topics that operations are grouped by.
 */
import { layerNames } from '../../shared/contracts/effective-config.ts';

interface Topic {
  readonly name: string;
  readonly description: string;
  /** How the names of its actions begin. Of several that fit, the longest counts. */
  readonly actions: readonly string[];
}

export const introduction = `
Layered configuration, policy and authentication for an operations-automation platform.

## Signing in

People sign in with a password, a passkey or through an identity provider, and get an access token, which is sent as
\`Authorization: Bearer\`, and a refresh token, which is exchanged for the next pair. Programs send an API key in \`X-API-Key\`. An API
key does what its owner may do, within its scopes; each operation names the scope that it needs. Operations without an API key among
their credentials are for people alone, and some want a sign-in of the last 10 minutes (403 \`auth_reauth_required\`).

## Layers

What holds for an agent on a service is merged from layers, the first of which that has a key decides it:
${layerNames.map((name) => `\`${name}\``).join(', ')}. Bounds act on the merged value. \`explain=true\` says for each key which layer decided it, and
what it shadows.

## Errors

Every error is \`{"detail": {"status", "code", "message"}, "request_id"}\`. Switch on \`code\`: messages are for people, and change. With
422 \`errors\` says what is wrong, by JSON Pointer. \`request_id\`, also the header \`X-Request-ID\`, finds the request in the log; a caller
may send its own. 429 and 503 name in \`Retry-After\` the seconds to wait. \`X-Config-Stale: true\` marks an answer from memory while a
part of the service is away.

## Pages

Lists answer \`items\` and \`next_cursor\`, at most \`limit\` of them. Ask again with \`cursor\` until \`next_cursor\` is null; other
parameters stay as they were. With \`Accept: application/x-ndjson\` the items come one a line, and the cursor in \`X-Next-Cursor\`.

## Entity tags and revisions

Each write of a document makes a revision, which is its entity tag. \`If-None-Match\` on a read answers 304 while nothing has changed;
\`If-Match\` on a write refuses with 412 what was changed since it was read, and says by whom. A read with \`X-Min-Revision\` never answers
from before that revision. A write is in force on every node when it is answered. \`dry_run=true\` shows what a write would change.

## Bodies

A JSON body is kept exactly as it was sent, or refused with 422: a number that a double cannot hold, \`-0\`, a name given twice in one
object, U+0000 and half of a surrogate pair, more than 64 levels, 10,000 names or 20,000 objects and arrays, 50,000 values, and a name of more than
1,000 characters are refused. A body, and a stored document, of more than 1 MiB is refused with 413.
`.trim();

export const topics: readonly Topic[] = [
  {
    name: 'Signing in',
    description:
      'Begin, continue and end sessions. A refresh token is good once; used a second time, it ends the session (401 `auth_refresh_reused`).',
    actions: [
      'auth.login',
      'auth.webauthn.login',
      'auth.refresh',
      'auth.logout',
      'auth.me',
      'auth.switch-tenant',
      'auth.sessions',
    ],
  },
  {
    name: 'Own account',
    description: 'Passwords, passkeys, linked identities and invitations of the signed-in person.',
    actions: [
      'auth.password',
      'auth.webauthn',
      'auth.sso.link',
      'auth.invitations',
      'audit.activity',
    ],
  },
  {
    name: 'API keys and service accounts',
    description:
      'Credentials for programs. Keys of a person end with their membership; a service account is no person, and its keys stay.',
    actions: ['auth.api-key', 'tenant-config.service-accounts', 'auth.service-account-key'],
  },
  {
    name: 'Workload identity',
    description:
      'A pipeline or cluster proves itself by the token of its platform, and keeps no key. `POST /auth/token` takes a form, and its errors are those of RFC 6749.',
    actions: ['auth.trust', 'auth.workload-issuers', 'auth.token'],
  },
  {
    name: 'Identity providers',
    description: 'OpenID Connect providers that people sign in through.',
    actions: ['auth.sso.providers'],
  },
  {
    name: 'Directories',
    description:
      'SCIM 2.0 (RFC 7643, 7644): a directory, such as Entra or Okta, says who belongs to the tenant and is in which group; its administrators say what a group gives. Bodies and answers of SCIM are `application/scim+json`, errors those of RFC 7644.',
    actions: ['tenant-config.scim', 'tenant-config.directory-groups'],
  },
  {
    name: 'Effective configuration',
    description:
      'What holds for an agent on a service. Read it with `If-None-Match`, or watch it instead of asking again and again.',
    actions: [
      'config-resolver.resolve',
      'config-resolver.configurations',
      'tenant-config.contexts',
    ],
  },
  {
    name: 'Decisions and automations',
    description:
      'Ask whether automation may act under the effective risk settings, or start it under them: an automation holds one of `max_concurrent_automations` slots while it runs.',
    actions: [
      'config-resolver.decide',
      'config-resolver.decisions',
      'notifier.decisions',
      'notifier.automations',
      'notifier.grants',
      'notifier.budgets',
    ],
  },
  {
    name: 'Feature flags',
    description:
      "For OpenFeature's providers of any language: the Remote Evaluation Protocol (OFREP). Their base address is `/tenants/{tenant_id}`.",
    actions: ['config-resolver.flags'],
  },
  {
    name: 'Authorization API',
    description:
      'For gateways that speak AuthZEN: the Authorization API 1.0, and draft 1 of its Access Request and Approval Profile.',
    actions: ['notifier.access', 'gateway.access'],
  },
  {
    name: 'Approvals',
    description:
      "A human's decision on what automation may not do alone. Groups are asked one after the other until somebody decides or time runs out.",
    actions: ['notifier.approvals', 'notifier.links', 'gateway.watch.approvals'],
  },
  {
    name: 'Notices',
    description:
      'How people were notified of approvals: deliveries with every attempt, replays, tests.',
    actions: ['notifier.deliveries', 'notifier.test'],
  },
  {
    name: 'Tenant configuration',
    description:
      "A tenant's documents: risk limits, agents, services, projects, notifications. Each has revisions, entity tags, history and dry runs.",
    actions: [
      'tenant-config.risk',
      'tenant-config.agents',
      'tenant-config.services',
      'tenant-config.projects',
      'tenant-config.notifications',
    ],
  },
  {
    name: 'Bounds',
    description:
      'Rules for effective values, whatever layers say; the console calls them guardrails. Those of the platform bind tenants; those of a tenant keep within them.',
    actions: ['global-config.bounds', 'tenant-config.bounds'],
  },
  {
    name: 'Event destinations',
    description:
      'Endpoints that audit events are pushed to, so that their receiver can prove that none is missing: where they are, their status, and resending.',
    actions: [
      'tenant-config.event-destinations',
      'global-config.event-destinations',
      'audit.destinations',
      'audit.platform-destinations',
    ],
  },
  {
    name: 'Budgets and freezes',
    description:
      'What automation may spend in a period, and when it may not act. Those of the platform hold in every tenant by itself, and those of a tenant add to them.',
    actions: [
      'global-config.budgets',
      'tenant-config.budgets',
      'global-config.freezes',
      'tenant-config.freezes',
    ],
  },
  {
    name: 'Change sets',
    description:
      'Writes that are proposed, approved by others than their authors, and made together. A change_policy says which writes require it.',
    actions: [
      'tenant-config.changesets',
      'global-config.changesets',
      'tenant-config.change-policy',
      'global-config.change-policy',
      'gateway.watch.changesets',
      'gateway.watch.platform-changesets',
      'tenant-config.managed-fields',
      'global-config.managed-fields',
    ],
  },
  {
    name: 'Platform configuration',
    description:
      'Global entries and service types. A plan shows what several writes would change for every tenant; applying it writes exactly that, or nothing.',
    actions: ['global-config.entries', 'global-config.service-types', 'global-config.plan'],
  },
  {
    name: 'Rollouts',
    description:
      'Writes of the platform that reach tenants in stages, by a list or by a hash of their ids. A revert is one write, and asks no one.',
    actions: ['global-config.rollouts'],
  },
  {
    name: 'History and rollback',
    description: 'Every write with what it changed, and the way back to what one left behind.',
    actions: [
      'tenant-config.history',
      'tenant-config.temporary-changes',
      'tenant-config.rollback',
      'global-config.history',
      'global-config.rollback',
    ],
  },
  {
    name: 'Streams',
    description:
      'Server-Sent Events. `EventSource` cannot send a credential: use fetch, or the client package. Send the id of the last event as `Last-Event-ID` to resume where a stream ended, on any gateway.',
    actions: ['gateway.watch'],
  },
  {
    name: 'Tenants and members',
    description: 'Tenants, who belongs to them, and accounts.',
    actions: [
      'tenant-config.tenants',
      'tenant-config.members',
      'tenant-config.visits',
      'tenant-config.access-report',
      'config-resolver.usage',
      'auth.users',
    ],
  },
  {
    name: 'Audit',
    description: 'Who did what, in chains of hashes that show whether anybody changed the record.',
    actions: [
      'audit.events',
      'audit.verify',
      'audit.export',
      'audit.cut',
      'audit.waiting',
      'audit.checkpoints',
    ],
  },
  {
    name: 'Operation',
    description:
      'Reloading settings and dropping caches on every node, and what monitoring asks of one.',
    actions: ['cluster', 'node'],
  },
  {
    name: 'Console',
    description:
      "The console's own session, whose refresh token is in a cookie. For its page alone.",
    actions: ['gateway.console'],
  },
];

/** The topic of an operation. Throws for an action that none names. */
export function topicOf(action: string): string {
  const fitting = topics.flatMap(({ name, actions }) =>
    actions
      .filter((beginning) => action === beginning || action.startsWith(`${beginning}.`))
      .map((beginning) => ({ name, length: beginning.length })),
  );
  const [best] = fitting.toSorted((one, other) => other.length - one.length);
  if (!best) throw new Error(`No topic of the OpenAPI document has ${action}.`);
  return best.name;
}
