import { spec, status, text } from '../../machinery/fields.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { typeWarnings } from '../../machinery/policies/type-check.ts';
import type { ResourceRegistry } from '../../machinery/resource-type.ts';
import type { Place, Storage } from '../../machinery/storage/stored.ts';
import { createWorkQueue } from './work-queue.ts';

const POLICIES: Place = {
  group: 'admissionregistration.k8s.io',
  resource: 'validatingadmissionpolicies',
};

/**
 * Maintains the status of ValidatingAdmissionPolicies. A policy is checked once per generation: kinds that are defined later
 * change nothing. Returns a function that stops the controller.
 *
 * @see kubernetes/pkg/controller/validatingadmissionpolicystatus
 */
export function startPolicyTypes(
  storage: Pick<Storage, 'get' | 'list' | 'watchAll' | 'replace'>,
  registry: ResourceRegistry,
  onError: (error: unknown) => void,
): () => void {
  const { add, stop } = createWorkQueue((name) => {
    const policy = storage.get(POLICIES, { namespace: '', name });
    if (policy === undefined || isChecked(policy)) return;
    const warnings = typeWarnings(spec(policy), registry);
    const checked = {
      ...policy,
      status: {
        ...status(policy),
        observedGeneration: policy.metadata.generation ?? 0,
        typeChecking:
          warnings.length === 0 ? {} : { expressionWarnings: warnings.map((one) => ({ ...one })) },
      },
    };
    storage.replace(POLICIES, checked, policy.metadata.resourceVersion ?? '');
  }, onError);
  const addAll = () => {
    for (const policy of storage.list(POLICIES).items)
      if (!isChecked(policy)) add(text(policy.metadata, 'name'));
  };
  const unwatch = storage.watchAll(({ group, resource }) => {
    if (group === POLICIES.group && resource === POLICIES.resource) addAll();
  });
  addAll();
  return () => {
    unwatch();
    stop();
  };
}

const isChecked = (policy: ApiObject): boolean =>
  status(policy).observedGeneration === policy.metadata.generation;
