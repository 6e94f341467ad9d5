/**
 * Every command of the console. A prompt, a pipe and `npm run repl -- <command>` all use this
 * table.
 */
import type { ClusterSession } from '../bus/cluster-session.ts';
import { commandTable } from '../command-table.ts';
import { commands } from '../commands.ts';
import { nodeCommands } from './node-commands.ts';

export const consoleTable = commandTable<ClusterSession>([...commands, ...nodeCommands], {});
