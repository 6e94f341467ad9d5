/** Whether an automation says that it is a rollback, which what it names has to prove. */
import type { Intent } from '../../../shared/contracts/decide.ts';

export const claimsRollback = ({ is_rollback: said, takes_back: named }: Intent): boolean =>
  said ?? named !== undefined;
