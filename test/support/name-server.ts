/** A name server for one name, whose addresses a test changes. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';

export interface NameServer {
  readonly port: number;
  /** IPv4 addresses that any name has from now on; with none, no name exists. */
  readonly answer: (addresses: readonly string[]) => void;
  readonly stop: () => void;
}

/** Seconds that an answer may be kept. */
const timeToLive = 1;

export async function startNameServer(): Promise<NameServer> {
  let known: readonly string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (query, { address, port }) => {
    socket.send(answerTo(query, known), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    port: socket.address().port,
    answer(addresses) {
      known = addresses;
    },
    stop: () => socket.close(),
  };
}

/** RFC 1035, section 4.1: the query's id and question, then an A record for each address. */
function answerTo(query: Buffer, addresses: readonly string[]): Buffer {
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  // An authoritative answer; code 3 says that there is no such name.
  header.writeUInt16BE(addresses.length > 0 ? 0x8580 : 0x8583, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(addresses.length, 6);
  // The name ends with an empty label; type and class follow.
  const question = query.subarray(12, query.indexOf(0, 12) + 5);
  const records = addresses.map((address) => {
    const record = Buffer.alloc(16);
    // A pointer to the name in the question, then type A, class IN.
    record.writeUInt16BE(0xc00c, 0);
    record.writeUInt16BE(1, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(timeToLive, 6);
    record.writeUInt16BE(4, 10);
    Buffer.from(address.split('.').map(Number)).copy(record, 12);
    return record;
  });
  return Buffer.concat([header, question, ...records]);
}
