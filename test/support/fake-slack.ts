/**
 * Slack as far as an app in Socket Mode sees it: the methods of the Web API that are used, the
 * socket with its envelopes, and people who click. Shapes are those of docs.slack.dev.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocketServer, type WebSocket } from 'ws';

export interface SlackPerson {
  readonly id: string;
  readonly email?: string;
  readonly isConfirmed?: boolean;
  readonly team?: string;
  readonly isBot?: boolean;
}
export interface SlackPost {
  readonly channel: string;
  readonly ts: string;
  readonly text: string;
  /** As JSON. */
  readonly blocks: string;
}

/** The app's; what begins so is a newer token of it. */
export const slackTokens = { app: 'xapp-1-of-the-app', bot: 'xoxb-of-the-bot' };
const team = 'T0OWN';

export class FakeSlack {
  /** By ts, as they stand now. */
  readonly posts = new Map<string, SlackPost>();
  /** What was said to one person alone. */
  readonly whispers: { readonly user: string; readonly text: string }[] = [];
  readonly people = new Map<string, SlackPerson>();
  /** What the next calls of a method answer in place of the truth. */
  readonly failures = new Map<string, string[]>();
  /** Calls of a method are answered once its promise is resolved. */
  readonly held = new Map<string, Promise<void>>();
  /** How many calls have come, by method. */
  readonly calls = new Map<string, number>();
  readonly sockets = new Set<WebSocket>();
  url = '';
  #clicks = 0;
  #acknowledged = new Set<string>();
  readonly #server = createServer((request, response) => {
    void this.#answer(request).then((body) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(body)),
    );
  });
  readonly #listener = new WebSocketServer({ server: this.#server });

  async start(): Promise<this> {
    this.#listener.on('connection', (socket) => {
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
      socket.on('message', (data) => {
        this.#acknowledged.add(JSON.parse(String(data)).envelope_id);
      });
      socket.send(JSON.stringify({ type: 'hello', num_connections: this.sockets.size }));
    });
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/api`;
    return this;
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.terminate();
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** A click on the button of a post; resolves once it is acknowledged. */
  async click(person: string, post: SlackPost, actionId: string, value?: string): Promise<void> {
    const [button] = JSON.parse(post.blocks)
      .flatMap(({ elements = [] }: { elements?: object[] }) => elements)
      .filter((each: { action_id?: string }) => each.action_id === actionId);
    if (button === undefined && value === undefined) throw new Error('there is no such button');
    const [socket] = this.sockets;
    if (!socket) throw new Error('no one listens');
    const envelope_id = randomUUID();
    const payload = {
      type: 'block_actions',
      user: { id: person },
      team: { id: team },
      channel: { id: post.channel },
      message: { ts: post.ts },
      actions: [{ action_id: actionId, value: value ?? button.value }],
    };
    socket.send(
      JSON.stringify({
        type: 'interactive',
        envelope_id,
        payload,
        accepts_response_payload: false,
      }),
    );
    const until = Date.now() + 10_000;
    while (!this.#acknowledged.has(envelope_id)) {
      if (Date.now() > until) throw new Error('the click was not acknowledged');
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async #answer(request: IncomingMessage): Promise<object> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const method = request.url!.split('/').at(-1)!.split('?')[0]!;
    const fields = new URLSearchParams(Buffer.concat(chunks).toString());
    this.calls.set(method, (this.calls.get(method) ?? 0) + 1);
    await this.held.get(method);
    const failure = this.failures.get(method)?.shift();
    if (failure !== undefined) return { ok: false, error: failure };
    const wanted = method === 'apps.connections.open' ? slackTokens.app : slackTokens.bot;
    if (!request.headers.authorization?.startsWith(`Bearer ${wanted}`))
      return { ok: false, error: 'invalid_auth' };
    return this.#methods[method]?.(fields) ?? { ok: false, error: 'unknown_method' };
  }

  readonly #methods: Readonly<Record<string, (fields: URLSearchParams) => object>> = {
    'auth.test': () => ({ ok: true, team_id: team, user_id: 'UBOT' }),
    'apps.connections.open': () => ({ ok: true, url: this.url.replace('http:', 'ws:') }),
    'users.info': (fields) => {
      const person = this.people.get(fields.get('user')!);
      if (!person) return { ok: false, error: 'user_not_found' };
      const { id, email, isConfirmed = true, team: of = team, isBot = false } = person;
      const known = { id, team_id: of, deleted: false, is_bot: isBot };
      const profile = email === undefined ? {} : { email };
      return { ok: true, user: { ...known, is_email_confirmed: isConfirmed, profile } };
    },
    'chat.postMessage': (fields) => {
      const ts = `${1_700_000_000 + (this.#clicks += 1)}.000100`;
      return this.#put(fields.get('channel')!, ts, fields);
    },
    'chat.update': (fields) => {
      const ts = fields.get('ts')!;
      if (!this.posts.has(ts)) return { ok: false, error: 'message_not_found' };
      return this.#put(fields.get('channel')!, ts, fields);
    },
    'chat.postEphemeral': (fields) => {
      this.whispers.push({ user: fields.get('user')!, text: fields.get('text')! });
      return { ok: true };
    },
  };

  #put(channel: string, ts: string, fields: URLSearchParams): object {
    const [text, blocks] = [fields.get('text')!, fields.get('blocks')!];
    this.posts.set(ts, { channel, ts, text, blocks });
    return { ok: true, channel, ts };
  }
}
