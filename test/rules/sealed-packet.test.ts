/** The form of packets between nodes, and which of them count as new. */
import { describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import {
  envelopeOf,
  keyIdLength,
  keyOfProcess,
  open,
  processIdBytes,
  ReplayWindow,
  seal,
  type Envelope,
} from '../../shared/bus/sealed-packet.ts';
import { createKeyRing } from '../../shared/security/derived-keys.ts';

const ringOf = (secretKey: string) =>
  createKeyRing(
    { secret_key: secretKey, secret_key_previous: null },
    { label: 'packets', idLength: keyIdLength, neededTo: 'test' },
  ).current;
const master = ringOf('a'.repeat(32));
const processId = (): string => randomBytes(processIdBytes).toString('latin1');
const envelope: Envelope = {
  keyId: master.id,
  sender: processId(),
  receiver: processId(),
  number: 2 ** 40 + 7,
};
const key = keyOfProcess(master, envelope.sender);
const contents = { nodeId: 'nœud-1', message: Buffer.from('{"params":1}') };
const packet = seal(envelope, 'REQ', contents, key);

describe('a sealed packet', () => {
  test('opens to what was sealed', () => {
    expect(envelopeOf(packet)).toEqual(envelope);
    expect(open(packet, 'REQ', key)).toEqual(contents);
  });

  test('does not open as another command, under another key, or changed in any byte', () => {
    for (const command of ['RES', 'EVENT', '', 'REQB'])
      expect(open(packet, command, key)).toBe(undefined);
    const others = [
      keyOfProcess(ringOf('b'.repeat(32)), envelope.sender),
      keyOfProcess(master, processId()),
    ];
    for (const other of others) expect(open(packet, 'REQ', other)).toBe(undefined);
    packet.forEach((byte, place) => {
      const changed = Buffer.from(packet);
      changed[place] = byte ^ 1;
      expect(open(changed, 'REQ', key)).toBe(undefined);
    });
  });

  test('nothing shorter, and nothing of Moleculer or in chunks, is taken for one', () => {
    for (const other of ['', '{"ver":"5"}', '\0'.repeat(100)])
      expect(envelopeOf(Buffer.from(other))).toBe(undefined);
    expect(envelopeOf(packet.subarray(0, 58))).toBe(undefined);
  });

  test('hides what it holds, and two with the same contents differ', () => {
    const next = seal({ ...envelope, number: envelope.number + 1 }, 'REQ', contents, key);
    expect(packet.includes('params') || packet.includes('ud-1')).toBe(false);
    expect(next.subarray(43).equals(packet.subarray(43))).toBe(false);
  });
});

describe('the packets that have arrived', () => {
  test('each counts once, in whatever order', () => {
    const window = new ReplayWindow();
    const numbers = Array.from({ length: 3000 }, (_each, index) => (index * 1013) % 3000);
    expect(numbers.map((number) => window.accept(number))).toEqual(numbers.map(() => true));
    expect(numbers.map((number) => window.accept(number))).toEqual(numbers.map(() => false));
  });

  test('one that is far behind is refused, also after leaps', () => {
    const window = new ReplayWindow();
    expect([5000, 904, 905, 905].map((number) => window.accept(number))).toEqual([
      true,
      false,
      true,
      false,
    ]);
    const leap = 2 ** 45;
    expect([leap, leap, 5000, leap - 4095, leap - 4096].map((n) => window.accept(n))).toEqual([
      true,
      false,
      false,
      true,
      false,
    ]);
    // The places of old numbers are those of new ones.
    expect(window.accept(leap + 4096 - 4095)).toBe(true);
  });
});
