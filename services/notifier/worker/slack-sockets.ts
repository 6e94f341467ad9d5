/**
 * Socket Mode: for each tenant with Slack one node holds a connection to Slack, on which clicks come
 * in, so that nothing of Strata needs to be reached from outside. A node that dies is followed by
 * another within half a minute; two at once do no harm, since Slack gives each click to one of them.
 *
 * | Trusted | Not trusted |
 * |---|---|
 * | Slack's word which member of the workspace clicked, and that their address is confirmed | who is in the channel: that gives nothing |
 * | an address of the app's own workspace | an address of another one, by a shared channel: others manage it |
 *
 * What the person may do with it, notifier.slack.decide says, as for the links in mails.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger as SlackLogger, LogLevel, SocketModeClient } from '@slack/socket-mode';
import type { Logger } from 'pino';
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import { within } from '../../../shared/concurrency/within.ts';
import type { LoopOptions, ServiceOptions } from '../../../shared/contract-runtime/service.ts';
import type { EffectiveNotifications } from '../../../shared/contracts/notification-config.ts';
import { isCoded } from '../../../shared/errors.ts';
import { slackApi } from '../channels/slack-api.ts';
import { slackActions } from '../rules/slack-message.ts';
import { claimSlack, releaseSlack } from '../stores/slack-leases.ts';

const lookMs = 2000;
/** Of one tenant, at once. Each costs three calls of Slack's, which has limits of its own. */
const mostClicking = 20;
/** How long connections may take to end while the node stops. */
const drainMs = 1000;
/** For Slack's answers, and for a connection to be there. */
const answerMs = 10_000;

export type SlackSocketOptions = LoopOptions & Pick<ServiceOptions, 'settings'>;

interface Held {
  /** Of the tenant's notification_config. */
  readonly revision: number;
  readonly end: () => Promise<void>;
}

export interface SlackSockets extends BackgroundLoop {
  /** Tenants whose clicks this node receives, or is about to. */
  readonly count: () => number;
}

export function startSlackSockets(options: SlackSocketOptions): SlackSockets {
  const { db, log, call } = options;
  const holder = randomUUID();
  const held = new Map<string, Held>();

  function drop(tenantId: string): Promise<void> {
    const { end } = held.get(tenantId)!;
    held.delete(tenantId);
    return end();
  }

  /** Beside the others: a Slack that does not answer holds up nobody else's. */
  function take(tenantId: string, revision: number): void {
    const forget = (): void => {
      if (held.get(tenantId) === own) held.delete(tenantId);
    };
    const opening = listen(tenantId, options, forget);
    const end = async (): Promise<void> => {
      try {
        await (await opening).disconnect();
      } catch (error) {
        log.debug({ err: error, tenant_id: tenantId }, 'the connection to Slack was none any more');
      }
    };
    const own = { revision, end };
    held.set(tenantId, own);
    opening.catch((error: unknown) => {
      log.warn(
        { err: error, tenant_id: tenantId },
        'the connection to Slack failed; it is tried again',
      );
      forget();
    });
  }

  async function look(): Promise<number> {
    const wanted = await call('tenant-config.notifications.with-slack', {});
    const revisions = new Map(wanted.map((each) => [each.tenant_id, each.revision]));
    const mine = new Set(await claimSlack(db, holder, [...revisions.keys()]));
    for (const [tenantId, { revision }] of held)
      if (!mine.has(tenantId) || revisions.get(tenantId) !== revision) void drop(tenantId);
    for (const tenantId of mine) if (!held.has(tenantId)) take(tenantId, revisions.get(tenantId)!);
    return lookMs;
  }

  const loop = startBackgroundLoop({
    log,
    look,
    retryMs: lookMs,
    // Who says which tenants have Slack is there by then.
    firstMs: lookMs,
    complaint: 'which tenants have Slack cannot be read; it is tried again',
  });
  return {
    wake: loop.wake,
    count: () => held.size,
    async stop() {
      await loop.stop();
      const ended = Promise.all([...held.keys()].map(drop));
      await Promise.race([ended, delay(drainMs, undefined, { ref: false })]);
      await releaseSlack(db, holder).catch((error: unknown) =>
        log.debug({ err: error }, 'Slack is held for half a minute more by a node that ends'),
      );
    },
  };
}

/** What of a click is read here (docs.slack.dev, block_actions). */
interface Click {
  readonly type: string;
  readonly user: { readonly id: string };
  readonly channel?: { readonly id: string };
  readonly actions?: readonly { readonly action_id: string; readonly value?: string }[];
}

/**
 * Resolves once clicks of the tenant's are heard; `ended` is called when they are not any more, as
 * when Slack, which does so every few hours, wants another connection.
 */
async function listen(
  tenantId: string,
  options: SlackSocketOptions,
  ended: () => void,
): Promise<SocketModeClient> {
  const { log, settings, call } = options;
  const opened = await call('tenant-config.notifications.open', { tenant_id: tenantId });
  const { slack } = opened.config;
  if (!slack) throw new Error('the configuration has no Slack any more');
  const listening = { tenantId, slack, revision: opened.revision };
  /** Ids of those whose click is being taken. */
  const clicking = new Set<string>();
  const { SocketModeClient: Client, LogLevel: Level } = await import('@slack/socket-mode');
  const { slack_api_url: slackApiUrl } = settings();
  const socket = new Client({
    appToken: slack.app_token,
    logger: ownLog(log, Level.ERROR),
    // Its own attempts end the process where Slack refuses the token meanwhile.
    autoReconnectEnabled: false,
    clientOptions: { slackApiUrl, timeout: answerMs, retryConfig: { retries: 0 } },
  });
  socket.on('interactive', ({ ack, body }: { ack: () => Promise<void>; body: Click }) => {
    void (async () => {
      try {
        await ack();
        const { id } = body.user;
        // The second click of two in a row; or of more people than an approval has.
        if (clicking.has(id) || clicking.size === mostClicking) return;
        clicking.add(id);
        await clicked(listening, body, options).finally(() => clicking.delete(id));
      } catch (error) {
        log.warn({ err: error, tenant_id: tenantId }, 'a click in Slack was not taken');
      }
    })();
  });
  socket.on('disconnected', ended);
  try {
    await within(answerMs, socket.start());
    return socket;
  } catch (error) {
    void socket.disconnect();
    throw error ?? new Error('Slack ended the connection before it said hello');
  }
}

/** In place of lines of the package's own, which are no JSON. What matters comes as an error, too. */
function ownLog(log: Logger, level: LogLevel): SlackLogger {
  const say = (...parts: unknown[]): void => log.debug(parts.map(String).join(' '));
  return {
    debug: () => {},
    info: () => {},
    warn: say,
    error: say,
    setLevel: () => {},
    getLevel: () => level,
    setName: () => {},
  };
}

/** By which configuration a click was heard. */
interface Listening {
  readonly tenantId: string;
  readonly slack: NonNullable<EffectiveNotifications['slack']>;
  readonly revision: number;
}

async function clicked(
  { tenantId, slack, revision }: Listening,
  { type, user, channel, actions: [action] = [] }: Click,
  { settings, call }: SlackSocketOptions,
): Promise<void> {
  if (type !== 'block_actions' || !action || !Object.hasOwn(slackActions, action.action_id)) return;
  const decision = slackActions[action.action_id as keyof typeof slackActions];
  const api = await slackApi(slack.bot_token, settings());
  const reply = async (text: string): Promise<void> => {
    if (channel) await api.chat.postEphemeral({ channel: channel.id, user: user.id, text });
  };
  const [{ team_id: ownTeam }, { user: person }] = await Promise.all([
    api.auth.test(),
    api.users.info({ user: user.id }),
  ]);
  const { email } = person?.profile ?? {};
  const isOwn = person?.team_id === ownTeam && person?.is_bot === false && !person.deleted;
  if (!isOwn || email === undefined || person.is_email_confirmed !== true)
    return reply('Nothing was decided: Slack vouches for no address of yours in this workspace.');
  try {
    const { left } = await call('notifier.slack.decide', {
      tenant_id: tenantId,
      approval_id: action.value ?? '',
      // As addresses are kept and compared.
      email: email.toLowerCase(),
      decision,
      revision,
    });
    await reply(left === 0 ? 'It is decided.' : `You have approved it. It takes ${left} more.`);
  } catch (error) {
    // What another node refuses loses its class on the bus.
    if (!(error instanceof Error) || !isCoded(error)) throw error;
    await reply(`Nothing was decided: ${error.message}`);
  }
}
