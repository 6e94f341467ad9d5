/** The command for what no other command does: any action that an operator may call. */
import { contractOf, contractTable, type ActionName } from '../../shared/contracts/index.ts';
import { Misused, type Command } from '../command.ts';
import { jsonOf } from '../typed.ts';

const isAction = (name: string): name is ActionName => contractOf(name) !== undefined;

/** For the Tab key: actions that are not for services alone. */
async function actionNames(): Promise<readonly string[]> {
  const entries = Object.entries(contractTable);
  return entries.filter(([, { access }]) => access.level !== 'internal').map(([name]) => name);
}

export const callCommand: Command = {
  name: 'call',
  parameters: '<action> [json]',
  summary: 'call any action with these parameters; access and parameters are checked as ever',
  complete: { action: actionNames },
  async run({ session, args, answer }) {
    const action = args.action!;
    if (!isAction(action)) throw new Misused(`there is no action ${action}`);
    const params = jsonOf(args.json ?? '{}');
    const isObject = typeof params === 'object' && params !== null && !Array.isArray(params);
    if (!isObject) throw new Misused('the parameters are a JSON object');
    answer(await session.call(action, params));
  },
};
