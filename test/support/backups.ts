/** Backups of a test's PostgreSQL, and how it is restored while the nodes that use it run on. */
import { dirname } from 'node:path';
import { restoreBackup } from '../../shared/database/backup/restore.ts';
import { takeBackup } from '../../shared/database/backup/take.ts';
import { serverPathsIn } from '../../shared/database/embedded.ts';
import { withClient, type Server } from './postgres.ts';

const silent = (): void => {};

/**
 * Takes one while the server works. Returns how to kill the server and start it again as it was at
 * a moment.
 */
export async function backUpServer(
  { url, restart }: Server,
  directory: string,
): Promise<(until: string, whileDown?: () => void) => Promise<void>> {
  const home = await withClient(url, async (client) => {
    const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory');
    const cluster = rows[0]!.data_directory;
    const { account } = serverPathsIn(dirname(cluster));
    await takeBackup({
      home: dirname(cluster),
      cluster,
      account,
      client,
      directory,
      version: 'of a test',
      secretKeyId: '',
      say: silent,
    });
    return dirname(cluster);
  });
  return (until, whileDown = silent) =>
    restart('SIGKILL', async () => {
      whileDown();
      await restoreBackup({ paths: serverPathsIn(home), directory, until, say: silent });
    });
}
