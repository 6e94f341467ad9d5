/**
 * Stories of automations, of approvals, and of who may what. They have one Strata, since the first requests of a process
 * cost several times what later ones do; each has tenants of its own.
 */
import './automations/strata.ts';
import './automations/slots.ts';
import './automations/redeem.ts';
import './automations/approval-rights.ts';
import './automations/escalation.ts';
import './automations/decisions.ts';
import './automations/access-report.ts';
import './automations/budgets.ts';
// Stops Strata at its end, since endpoints still hang.
import './automations/notifier-isolation.ts';
