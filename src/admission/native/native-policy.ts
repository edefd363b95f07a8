/**
 * What the API server can enforce itself: the checks of an AdmissionPolicy as a ValidatingAdmissionPolicy. It refuses the same
 * requests, also while every replica of Gatehouse is down.
 *
 * @see https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
 */
import { isEverybody, type Principal } from '../../api/principals.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { withoutNamespace } from '../webhooks/webhook-configurations.ts';
import { keepDeferrable } from './keep-deferrable.ts';
import type { NativeCheck } from './native-check.ts';
import { immutableValidations } from './native-immutable.ts';
import { ruleValidations, usedVariables } from './native-rules.ts';

export interface NativePolicy {
  readonly checks: readonly NativeCheck[];
  /** The ValidatingAdmissionPolicy and its binding; none if the API server can enforce no check. */
  readonly objects: readonly KubeObject[];
}

export interface NativeOptions {
  /** Whose objects no policy governs. */
  readonly ownNamespace: string;
  /** Only the webhook judges their requests: it defers checks while a backup is restored. */
  readonly restorers: readonly Principal[];
}

export function compileNative(
  policy: CompiledPolicy,
  { ownNamespace, restorers }: NativeOptions,
): NativePolicy {
  const checks: readonly NativeCheck[] = [
    ...keepDeferrable(policy, 'immutable', immutableValidations(policy)),
    ...keepDeferrable(policy, 'rules', ruleValidations(policy)),
    ...needWebhook(policy),
  ];
  const validations = checks.flatMap((one) => (one.by === 'APIServer' ? [one.validation] : []));
  if (validations.length === 0) return { checks, objects: [] };
  const variables = usedVariables(policy, validations);
  const { match, enforcement } = policy;
  const metadata = {
    // The suffix keeps a policy from replacing one of Gatehouse's own, such as gatehouse-backstop-secrets.
    name: `${policy.name}.policies.gatehouse.dev`,
    labels: { 'app.kubernetes.io/managed-by': 'gatehouse' },
  };
  const group = 'admissionregistration.k8s.io/v1';
  const object = (kind: string, spec: object): KubeObject => ({
    apiVersion: group,
    kind,
    metadata,
    ...{ spec },
  });
  const { apiGroups, apiVersions, resources, operations, namespaceSelector, objectSelector } = match;
  return {
    checks,
    objects: [
      object('ValidatingAdmissionPolicy', {
        // A rule that cannot be evaluated is violated, as in the webhook.
        failurePolicy: 'Fail',
        matchConstraints: {
          resourceRules: [{ apiGroups, apiVersions, resources, operations }],
          namespaceSelector: withoutNamespace(namespaceSelector, ownNamespace),
          objectSelector,
        },
        matchConditions: [...match.matchConditions, judgedHere(restorers)],
        ...(variables.length === 0 ? {} : { variables }),
        validations,
      }),
      object('ValidatingAdmissionPolicyBinding', {
        policyName: metadata.name,
        validationActions: [enforcement],
      }),
    ],
  };
}

/**
 * Whether the API server judges the request. The webhook tolerates what an object in deletion violates already, and defers
 * checks of restorers. One condition: the API server allows 64, and a policy may have 63.
 */
function judgedHere(restorers: readonly Principal[]) {
  // As in `isPrincipal`: a principal with both matches no user, and some groups are never restorers.
  const users = restorers.flatMap(({ user, group }) =>
    user !== undefined && group === undefined ? [user] : [],
  );
  const groups = restorers.flatMap(({ user, group }) =>
    group !== undefined && user === undefined && !isEverybody({ group }) ? [group] : [],
  );
  const left = [
    'oldObject.?metadata.?deletionTimestamp.hasValue()',
    ...(users.length === 0 ? [] : [`request.userInfo.username in ${JSON.stringify(users)}`]),
    ...(groups.length === 0
      ? []
      : [`request.userInfo.?groups.orValue([]).exists(group, group in ${JSON.stringify(groups)})`]),
  ];
  return { name: 'not-left-to-the-webhook', expression: `!(${left.join(' || ')})` };
}

/** The checks that no policy of the API server can express. */
function needWebhook(policy: CompiledPolicy): readonly NativeCheck[] {
  const webhook = (check: string, reason: string): NativeCheck => ({ check, by: 'Webhook', reason });
  const { references, unique, schema, defaults, mutations, warnings, auditAnnotations } = policy;
  return [
    ...references.map(({ name }) => webhook(`reference ${name}`, 'it reads another object')),
    ...unique.map(({ name }) => webhook(`unique ${name}`, 'it compares with all other objects')),
    ...(schema === undefined ? [] : [webhook('schema', 'CEL has no JSON Schema')]),
    ...(defaults.length === 0 ? [] : [webhook('defaults', 'a ValidatingAdmissionPolicy changes nothing')]),
    ...mutations.map(({ name }) =>
      webhook(`mutation ${name}`, 'a ValidatingAdmissionPolicy changes nothing'),
    ),
    ...(warnings.length === 0 ? [] : [webhook('warnings', 'the API server would add words of its own')]),
    ...auditAnnotations.map(({ key }) =>
      webhook(`audit annotation ${key}`, 'the API server would write it under another key'),
    ),
  ];
}
