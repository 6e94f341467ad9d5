/** Secrets at rest, alone and inside documents: where they open, and where they must not go. */
import { describe, expect, test } from '@jest/globals';
import { Type } from 'typebox';
import { marks, Secret } from '../../shared/contracts/marks.ts';
import {
  NullableNotificationConfig,
  type NotificationConfig,
  type WebhookEndpoint,
} from '../../shared/contracts/notification-config.ts';
import { markedTexts } from '../../shared/schema/marked.ts';
import {
  concealSecrets,
  openSecrets,
  sealSecrets,
} from '../../shared/security/document-secrets.ts';
import { createVault, isSealed, mask } from '../../shared/security/vault.ts';
import fc from '../support/properties.ts';

const key = 'k'.repeat(32);
const other = 'o'.repeat(32);
const vault = createVault({ secret_key: key, secret_key_previous: null }, 'test');

describe('the vault', () => {
  test('opens what it sealed, whatever the text', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed()),
        fc.string(),
        (plain, context) => {
          const sealed = vault.seal(plain, context);
          expect(isSealed(sealed)).toBe(true);
          expect(vault.open(sealed, context)).toBe(plain);
        },
      ),
    );
  });

  test('seals the same text differently each time', () =>
    expect(vault.seal('s', 'c')).not.toBe(vault.seal('s', 'c')));

  test('SECRET_KEY_PREVIOUS still opens, and no longer seals', () => {
    const rotated = createVault({ secret_key: other, secret_key_previous: key }, 'test');
    expect(rotated.open(vault.seal('s', 'c'), 'c')).toBe('s');
    expect(() => vault.open(rotated.seal('s', 'c'), 'c')).toThrow(
      'neither SECRET_KEY nor SECRET_KEY_PREVIOUS',
    );
    expect(
      createVault({ secret_key: key, secret_key_previous: key }, 'test').open(
        vault.seal('s', 'c'),
        'c',
      ),
    ).toBe('s');
  });

  test('another label, context or key opens nothing', () => {
    const sealed = vault.seal('canary', 'tenant a');
    expect(() => vault.open(sealed, 'tenant b')).toThrow('altered or belongs elsewhere');
    expect(() =>
      createVault({ secret_key: key, secret_key_previous: null }, 'label').open(sealed, 'tenant a'),
    ).toThrow();
    expect(() => createVault({ secret_key: null, secret_key_previous: key }, 'test')).toThrow(
      'SECRET_KEY',
    );
  });

  test('altered text does not open, and the error does not hold it', () => {
    const sealed = vault.seal('canary', 'c');
    const parts = sealed.split('.');
    const text = parts.pop()!;
    const tag = parts.pop()!;
    const head = parts.join('.');
    const withUnknownKeyId = `${sealed.slice(0, 17)}00000000${sealed.slice(25)}`;
    const flipped = (part: string): string => (part.startsWith('A') ? 'B' : 'A') + part.slice(1);
    const altered = [
      `${head}.${flipped(tag)}.${text}`,
      `${head}.${tag}.${flipped(text)}`,
      `${head}.${tag.slice(0, 6)}.${text}`,
      `${head}..${text}`,
      `${head}.${tag}.`,
      head,
      withUnknownKeyId,
      'canary',
      '',
    ];
    for (const each of altered) {
      expect(() => vault.open(each, 'c')).toThrow(
        /^A stored secret (does not open|was sealed with a key)/,
      );
    }
  });
});

const a = 'https://a.example/hook';
const context = 'tenant 1';
const seal = (next: NotificationConfig, stored: NotificationConfig | null) =>
  sealSecrets<NotificationConfig | null>(next, NullableNotificationConfig, vault, context, stored)!;
const openFor = (owner: string, stored: NotificationConfig) =>
  openSecrets<NotificationConfig | null>(stored, NullableNotificationConfig, vault, owner)!;
const open = (stored: NotificationConfig) => openFor(context, stored);
/** As it is shown, whether it is stored or not. */
const hide = (config: NotificationConfig) => concealSecrets(seal(config, null));
const list = (...endpoints: { url: string; secret?: string }[]): NotificationConfig => ({
  webhook: { endpoints },
});
const refusals = (next: NotificationConfig, stored: NotificationConfig | null): string[] => {
  try {
    seal(next, stored);
    return [];
  } catch (error) {
    return (error as { data: { errors: { path: string }[] } }).data.errors.map(({ path }) => path);
  }
};

const full: NotificationConfig = {
  webhook: {
    endpoints: [
      {
        url: a,
        secret: 's1',
        previous_secret: 's0',
        auth: { type: 'bearer', token: 't1' },
        headers: { 'X-Token': 'h1', 'X-Plain': 'p1' },
      },
      { url: 'https://b.example/', auth: { type: 'basic', username: 'u', password: 'pw' } },
      { url: 'https://c.example/', auth: { type: 'api_key', api_key: 'ak', header_name: 'X-K' } },
    ],
  },
  chat: { google_chat: { webhook_url: 'https://chat.example/?key=k' } },
};

describe('secrets of a document', () => {
  test('are sealed, opened and masked where they are, and nowhere else', () => {
    const stored = seal(full, null);
    expect(open(stored)).toEqual(full);
    expect(hide(stored)).toEqual({
      webhook: {
        endpoints: [
          {
            url: a,
            secret: mask,
            previous_secret: mask,
            auth: { type: 'bearer', token: mask },
            headers: { 'X-Token': mask, 'X-Plain': 'p1' },
          },
          { url: 'https://b.example/', auth: { type: 'basic', username: 'u', password: mask } },
          {
            url: 'https://c.example/',
            auth: { type: 'api_key', api_key: mask, header_name: 'X-K' },
          },
        ],
      },
      chat: { google_chat: { webhook_url: mask } },
    });
    for (const plain of ['"s1"', '"s0"', '"t1"', '"h1"', '"pw"', '"ak"', 'key=k'])
      expect(JSON.stringify(stored)).not.toContain(plain);
    expect(seal(hide(stored), stored)).toEqual(stored);
    expect(
      sealSecrets<NotificationConfig | null>(
        null,
        NullableNotificationConfig,
        vault,
        context,
        stored,
      ),
    ).toBeNull();
  });

  test('do not open for another tenant, in another field, or at another address', () => {
    const stored = seal({ webhook: { url: a, secret: 's' } }, null);
    expect(() => openFor('tenant 2', stored)).toThrow('belongs elsewhere');
    const [sealed] = /strata\.sealed[^"]+/.exec(JSON.stringify(stored))!;
    for (const url of ['https://b.example/hook', 'https://a.example/other', `${a}?q`])
      expect(() => open({ webhook: { url, secret: sealed } })).toThrow('belongs elsewhere');
    const inAnotherField: NotificationConfig = { webhook: { url: a, previous_secret: sealed } };
    expect(() => open(inAnotherField)).toThrow('belongs elsewhere');
  });

  test('text that looks sealed is a secret like any other', () => {
    const forged: NotificationConfig = { webhook: { url: a, secret: vault.seal('x', context) } };
    expect(open(seal(forged, null))).toEqual(forged);
  });

  describe('that are written back masked', () => {
    /**
     * What is kept where `next`, with masks, is written over `before`, whose secrets are given in
     * plain.
     */
    const writtenOver = (before: NotificationConfig, next: NotificationConfig) =>
      open(seal(next, seal(before, null)));

    test('follow their endpoint through any reordering', () => {
      const endpoints = ['a.example/1', 'a.example/2', 'b.example/1', 'c.example/1'].map(
        (place) => ({ url: `https://${place}`, secret: `secret of ${place}` }),
      );
      fc.assert(
        fc.property(fc.shuffledSubarray(endpoints), (reordered) => {
          const wanted = list(...reordered);
          expect(writtenOver(list(...endpoints), hide(wanted))).toEqual(wanted);
        }),
      );
    });

    test('follow their endpoint from the single form into a list, and out of it', () => {
      const single: NotificationConfig = { webhook: { url: a, secret: 's' } };
      const other = { url: 'https://z.example', secret: 'z' };
      const several = list(other, { url: a, secret: 's' });
      expect(writtenOver(single, hide(list({ url: a, secret: 's' })))).toEqual(
        list({ url: a, secret: 's' }),
      );
      expect(writtenOver(several, hide(single))).toEqual(single);
    });

    test('stay each with its own of two endpoints with one url', () => {
      const two = list({ url: a, secret: 's1' }, { url: a, secret: 's2' });
      expect(writtenOver(two, hide(two))).toEqual(two);
    });

    test('stay where an address is only spelled differently', () => {
      const before = list({ url: 'https://a.example', secret: 's1' });
      const spelled = 'HTTPS://A.example:443/';
      expect(writtenOver(before, list({ url: spelled, secret: mask }))).toEqual(
        list({ url: spelled, secret: 's1' }),
      );
    });
  });

  const endpoint: WebhookEndpoint = {
    url: a,
    secret: 's',
    previous_secret: 'p',
    auth: { type: 'bearer', token: 't' },
    headers: { 'X-Token': 'h' },
  };
  const everything: NotificationConfig = { webhook: endpoint };
  const maskedEndpoint: WebhookEndpoint = {
    url: a,
    secret: mask,
    previous_secret: mask,
    auth: { type: 'bearer', token: mask },
    headers: { 'X-Token': mask },
  };
  const all = [
    '/webhook/secret',
    '/webhook/previous_secret',
    '/webhook/auth/token',
    '/webhook/headers/X-Token',
  ];
  test.each([
    ['another path', 'https://a.example/other'],
    ['a path below', 'https://a.example/hook/other'],
    ['another query', 'https://a.example/hook?to=other'],
    ['another host', 'https://evil.example/hook'],
    ['a host that ends alike', 'https://a.example.evil.example/hook'],
    ['a subdomain', 'https://x.a.example/hook'],
    ['another port', 'https://a.example:8443/hook'],
    ['plain http', 'http://a.example/hook'],
    ['a userinfo trick', 'https://a.example@evil.example/hook'],
  ])('no stored secret goes to %s', (_name, url) => {
    const stored = seal(everything, null);
    const masked: WebhookEndpoint = { ...maskedEndpoint, url };
    expect(refusals({ webhook: masked }, stored)).toEqual(all);
    const inList = all.map((path) => path.replace('/webhook', '/webhook/endpoints/0'));
    expect(refusals(list(masked), stored)).toEqual(inList);
    expect(refusals(list({ url: a }, { url, secret: mask }), stored)).toEqual([
      '/webhook/endpoints/1/secret',
    ]);
  });

  test('the mask is refused where nothing is stored', () => {
    expect(hide(everything)).toEqual({ webhook: maskedEndpoint });
    expect(refusals(hide(everything), null)).toEqual(all);
    const withToken = seal({ webhook: { url: a, auth: { type: 'bearer', token: 't' } } }, null);
    const otherAuth: NotificationConfig = {
      webhook: { url: a, auth: { type: 'api_key', api_key: mask } },
    };
    expect(refusals(otherAuth, withToken)).toEqual(['/webhook/auth/api_key']);
    const chatOnly: NotificationConfig = { chat: { google_chat: { webhook_url: mask } } };
    expect(refusals(chatOnly, withToken)).toEqual(['/chat/google_chat/webhook_url']);

    const withSecret = seal({ webhook: { url: a, secret: 's' } }, null);
    const otherField: NotificationConfig = {
      webhook: { url: a, previous_secret: mask, secret: 'n' },
    };
    expect(refusals(otherField, withSecret)).toEqual(['/webhook/previous_secret']);

    const one = seal(list({ url: a, secret: 's' }), null);
    const two = list({ url: a, secret: mask }, { url: a, secret: mask });
    expect(refusals(two, one)).toEqual(['/webhook/endpoints/1/secret']);
  });
});

describe('a schema that marks a text', () => {
  const Sink = Type.Object({
    url: Type.String({ [marks.calledAddress]: true }),
    secret: Secret('Given to the receiver'),
    labels: Type.Record(Type.String(), Type.String(), { [marks.secretNames]: 'key' }),
  });
  const schema = Type.Object({
    name: Type.String(),
    licence: Secret('Sent nowhere'),
    sinks: Type.Array(Type.With(Sink, { [marks.secretsOf]: 'sink' }), { maxItems: 2 }),
    one: Type.Union([Type.Null(), Type.Object({ pin: Secret('In a choice') })]),
  });
  const document = {
    name: 'n',
    licence: 'canary 1',
    sinks: [{ url: a, secret: 'canary 2', labels: { 'the-KEY': 'canary 3', other: 'plain' } }],
    one: { pin: 'canary 4' },
  };
  const stored = sealSecrets(document, schema, vault, context, null);

  test('has it sealed, shown masked and opened, with no other place to say so', () => {
    expect(JSON.stringify(stored)).not.toContain('canary');
    expect(concealSecrets(stored)).toEqual({
      name: 'n',
      licence: mask,
      sinks: [{ url: a, secret: mask, labels: { 'the-KEY': mask, other: 'plain' } }],
      one: { pin: mask },
    });
    expect(openSecrets(stored, schema, vault, context)).toEqual(document);
    expect(sealSecrets(concealSecrets(stored), schema, vault, context, stored)).toEqual(stored);
  });

  test('binds it to the address beside it', () => {
    const elsewhere = structuredClone(stored);
    elsewhere.sinks[0]!.url = 'https://b.example/';
    expect(() => openSecrets(elsewhere, schema, vault, context)).toThrow('belongs elsewhere');
  });

  test('has its addresses found in whatever was sent, as far as the array may be long', () => {
    const sinks = [{ url: 'one' }, 'not a sink', { url: 'three' }];
    const found = markedTexts(schema, { sinks }).filter(({ isCalled }) => isCalled);
    expect(found.map(({ text }) => text)).toEqual(['one']);
    expect(markedTexts(schema, 'text')).toEqual([]);
  });
});
