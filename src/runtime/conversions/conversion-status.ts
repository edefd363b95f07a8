/** On the leader: writes the status of ConversionPolicies. */
import { installationOf, type OwnService } from '../../admission/conversion/installation.ts';
import type { ConversionPolicy, ConversionPolicyStatus } from '../../api/conversion-policy.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Store } from '../../kube/store.ts';
import { CONVERSION_POLICIES } from '../resources.ts';
import type { ConversionRegistry, ConversionState } from './conversion-registry.ts';
import type { Reconcile } from '../controller.ts';
import { conditionsOf, createStatusReconciler } from '../policies/compiled-state.ts';

export function createConversionStatusReconciler(
  client: Pick<KubeClient, 'replaceStatus'>,
  policies: Pick<Store<ConversionPolicy>, 'get'>,
  registry: Pick<ConversionRegistry, 'get'>,
  service: OwnService,
  now: () => Date,
): Reconcile {
  return createStatusReconciler(
    CONVERSION_POLICIES,
    client,
    policies,
    registry,
    (state, { status: before }) => {
      // Keep the status: the replica that wrote it had read the definition, and this replica has not.
      if (state.problem?.reason === 'DefinitionNotRead') return before;
      const verbs = ['converts', 'nothing is converted'] as const;
      const installation = { type: 'Installed', ...installationOf(state.definition, service) };
      return {
        conditions: conditionsOf(state, verbs, installation, before?.conditions, now()),
        ...inForceOf(state, before ?? {}),
      };
    },
  );
}

/** The last version in force stays in the status as a fallback, unless another policy converts the kind. */
function inForceOf(
  { inForce, problem }: ConversionState,
  before: ConversionPolicyStatus,
): Pick<ConversionPolicyStatus, 'inForce'> {
  if (inForce !== undefined) return { inForce: { generation: inForce.generation, spec: inForce.spec } };
  if (before.inForce === undefined || problem?.reason === 'Conflict') return {};
  return { inForce: before.inForce };
}
