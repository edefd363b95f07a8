import { isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
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
    const { typeChecking: before, ...others } = status(policy);
    const checked = {
      ...policy,
      status: {
        ...others,
        observedGeneration: policy.metadata.generation ?? 0,
        ...checkedTypes(typeWarnings(spec(policy), registry), before),
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

/** An apply that removes the last warning removes the field around it, too. */
function checkedTypes(
  warnings: ReturnType<typeof typeWarnings>,
  before: JsonValue | undefined,
): { readonly typeChecking?: JsonObject } {
  if (warnings.length > 0)
    return { typeChecking: { expressionWarnings: warnings.map((one) => ({ ...one })) } };
  return isJsonObject(before) && before.expressionWarnings !== undefined ? {} : { typeChecking: {} };
}

const isChecked = (policy: ApiObject): boolean =>
  status(policy).observedGeneration === policy.metadata.generation;
