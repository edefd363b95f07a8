/** The version of a policy whose references Gatehouse enforces. */
import type { AdmissionPolicy, AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { conditionOf } from '../inspect/status/report/policies.ts';

/** @param notes receives a line for each policy whose newest version is not in force */
export function versionInForce(policy: AdmissionPolicy, notes: string[]): AdmissionPolicy {
  const { metadata, status } = policy;
  const { status: ready, message } = conditionOf(policy, 'Ready');
  if (ready === 'True') return policy;
  const { inForce } = status ?? {};
  const [why] = message.split('\n');
  const newest = `AdmissionPolicy ${metadata.name ?? ''}: generation ${metadata.generation ?? 0}`;
  if (inForce === undefined) {
    notes.push(`${newest} is not in force, and no other is: its references are not enforced: ${why ?? ''}`);
    return policy;
  }
  notes.push(`${newest} is not ready; generation ${inForce.generation} is in force: ${why ?? ''}`);
  return {
    ...policy,
    metadata: { ...metadata, generation: inForce.generation },
    // The API server has validated status.inForce against the schema of the policy.
    spec: inForce.spec as AdmissionPolicySpec,
  };
}
