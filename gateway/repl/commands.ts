/**
 * The commands that the console and the command line share. What only the console has is in
 * `console-commands.ts`.
 */
import { accountCommands } from './account-commands.ts';
import { approvalCommands } from './approval-commands.ts';
import { auditCommands } from './audit-commands.ts';
import { callCommand } from './call-command.ts';
import type { Command } from './command.ts';
import { configCommands } from './config-commands.ts';
import { decideCommand } from './decide-command.ts';
import { tenantCommands } from './tenant-commands.ts';

export const commands: readonly Command[] = [
  ...configCommands,
  ...auditCommands,
  decideCommand,
  ...approvalCommands,
  ...tenantCommands,
  ...accountCommands,
  callCommand,
];
