import { fillDefaults } from './checks/defaults.ts';
import { isBeingDeleted } from './checks/references.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { ALLOWED, type Decision } from './decision.ts';
import { verifiedDiff } from './json-diff.ts';
import type { AdmissionRequest } from './request.ts';

/**
 * What the policies make of the object. Each sees what those before it did; the patch is empty when there is nothing to do, so a
 * second call with the result changes nothing.
 */
export function mutate(request: AdmissionRequest, policies: readonly CompiledPolicy[]): Decision {
  const { operation, object } = request;
  if (operation !== 'CREATE' && operation !== 'UPDATE') return ALLOWED;
  // A default to an object on its way out helps nobody and could keep its finalizers from being removed.
  if (object === undefined || isBeingDeleted(object)) return ALLOWED;
  const filled = policies.reduce((current, policy) => fillDefaults(policy, current), object);
  return filled === object ? ALLOWED : { ...ALLOWED, patch: verifiedDiff(object, filled) };
}
