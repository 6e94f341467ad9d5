/**
 * The commands that the console and the command line share. What only the console has is in
 * `console-commands.ts`.
 */
import { accountCommands } from './commands/account-commands.ts';
import { approvalCommands } from './commands/approval-commands.ts';
import { auditCommands } from './commands/audit-commands.ts';
import { clusterCommands } from './commands/cluster-commands.ts';
import { deliveryCommands } from './commands/delivery-commands.ts';
import { destinationCommands } from './commands/destination-commands.ts';
import { peopleCommands } from './commands/people-commands.ts';
import { rolloutCommands } from './commands/rollout-commands.ts';
import { stopCommands } from './commands/stop-commands.ts';
import { callCommand } from './commands/call-command.ts';
import type { Command } from './command.ts';
import { configCommands } from './commands/config-commands.ts';
import { decideCommand } from './commands/decide-command.ts';
import { decisionCommands } from './commands/decision-commands.ts';
import { tenantCommands } from './commands/tenant-commands.ts';

export const commands: readonly Command[] = [
  ...configCommands,
  ...auditCommands,
  decideCommand,
  ...decisionCommands,
  ...approvalCommands,
  ...tenantCommands,
  ...accountCommands,
  ...stopCommands,
  ...peopleCommands,
  ...deliveryCommands,
  ...destinationCommands,
  ...rolloutCommands,
  ...clusterCommands,
  callCommand,
];
