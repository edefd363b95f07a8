/** Every check, in the order in which a person would look. */
import type { Evidence } from './evidence.ts';
import type { Finding } from './finding.ts';
import { checkAccess, checkGovernedKinds } from './checks/access.ts';
import { checkBundles } from './checks/ca-bundles.ts';
import { checkClocks } from './checks/clocks.ts';
import { checkDefinitions } from './checks/definitions.ts';
import { checkDevSession } from './checks/dev-session.ts';
import { checkLeader } from './checks/leader.ts';
import { checkPolicies } from './checks/policies.ts';
import { checkRivals } from './checks/rivals.ts';
import { checkConfigurations, checkEndpoints, checkFailClosed, checkReach } from './checks/webhooks.ts';
import { checkWindows } from './checks/windows.ts';

const CHECKS: readonly ((evidence: Evidence) => readonly Finding[])[] = [
  checkDefinitions,
  checkAccess,
  checkLeader,
  checkConfigurations,
  checkDevSession,
  checkEndpoints,
  checkReach,
  checkFailClosed,
  checkBundles,
  checkRivals,
  checkClocks,
  checkGovernedKinds,
  checkPolicies,
  checkWindows,
];

export const judgeAll = (evidence: Evidence): readonly Finding[] =>
  CHECKS.flatMap((check) => check(evidence));
