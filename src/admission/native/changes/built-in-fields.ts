/**
 * Fields of built-in kinds that every API server with MutatingAdmissionPolicies supports. If such a policy writes an unknown field,
 * the API server answers 500 to every request: a misspelled field would stop all Pods. It ignores unknown fields of webhooks.
 * @see https://kubernetes.io/docs/reference/kubernetes-api/ (1.36; no release removes a field from a stable version)
 */
import type { CompiledPolicy } from '../../policy/compiled-policy.ts';
import { splitResource } from '../../policy/match/resource-pattern.ts';
import { pathsWritten, type Path } from './paths.ts';

/** `value`: string, number, Boolean, or a list of them. `map`: any keys. */
type Known = 'value' | 'map' | { readonly fields: Fields } | { readonly items: Known };
type Fields = Readonly<Record<string, Known>>;

const values = (names: string): Fields =>
  Object.fromEntries(names.split(/\s+/).map((name) => [name, 'value']));
const object = (names: string, more: Fields = {}): Known => ({ fields: { ...values(names), ...more } });

const SECCOMP_PROFILE = object('type localhostProfile');
const REQUESTED: Fields = { requests: 'map', limits: 'map' };
const METADATA: Known = { fields: { labels: 'map', annotations: 'map' } };

const CONTAINER = object(
  'image imagePullPolicy command args workingDir stdin stdinOnce tty terminationMessagePath terminationMessagePolicy',
  {
    resources: { fields: REQUESTED },
    securityContext: object(
      'allowPrivilegeEscalation privileged procMount readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser',
      { capabilities: object('add drop'), seccompProfile: SECCOMP_PROFILE },
    ),
  },
);

const POD_SPEC = object(
  `activeDeadlineSeconds automountServiceAccountToken dnsPolicy enableServiceLinks hostIPC hostNetwork hostPID hostUsers
  hostname nodeName preemptionPolicy priority priorityClassName restartPolicy runtimeClassName schedulerName
  serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds`,
  {
    containers: { items: CONTAINER },
    initContainers: { items: CONTAINER },
    nodeSelector: 'map',
    dnsConfig: object('nameservers searches'),
    securityContext: object(
      'fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser supplementalGroups',
      { seccompProfile: SECCOMP_PROFILE },
    ),
  },
);

const TEMPLATE: Fields = { template: { fields: { metadata: METADATA, spec: POD_SPEC } } };
const withPods = (names: string, more: Fields = {}): Fields => ({
  spec: object(names, { ...TEMPLATE, ...more }),
});
const JOB = withPods(
  'activeDeadlineSeconds backoffLimit completionMode completions parallelism suspend ttlSecondsAfterFinished',
);
const CRON_JOB =
  'concurrencyPolicy failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit suspend timeZone';

const KINDS: Readonly<Record<string, Fields>> = {
  'v1/configmaps': { data: 'map', ...values('immutable') },
  'v1/persistentvolumeclaims': {
    spec: object('accessModes storageClassName volumeMode', { resources: { fields: REQUESTED } }),
  },
  'v1/pods': { spec: POD_SPEC },
  'v1/serviceaccounts': values('automountServiceAccountToken'),
  'v1/services': {
    spec: object(
      `allocateLoadBalancerNodePorts externalTrafficPolicy internalTrafficPolicy ipFamilies ipFamilyPolicy loadBalancerClass
      loadBalancerSourceRanges publishNotReadyAddresses sessionAffinity type`,
      { selector: 'map' },
    ),
  },
  'apps/v1/daemonsets': withPods('minReadySeconds revisionHistoryLimit'),
  'apps/v1/deployments': withPods(
    'minReadySeconds paused progressDeadlineSeconds replicas revisionHistoryLimit',
    {
      strategy: object('type'),
    },
  ),
  'apps/v1/replicasets': withPods('minReadySeconds replicas'),
  'apps/v1/statefulsets': withPods('minReadySeconds podManagementPolicy replicas revisionHistoryLimit'),
  'batch/v1/cronjobs': {
    spec: object(CRON_JOB, { jobTemplate: { fields: { metadata: METADATA, ...JOB } } }),
  },
  'batch/v1/jobs': JOB,
  'networking.k8s.io/v1/ingresses': { spec: object('ingressClassName') },
};

/** Why the webhook makes all changes: one of them may write a field that a built-in kind lacks. */
export function unknownFieldProblem({ match, defaults, mutations }: CompiledPolicy): string | undefined {
  const written = [...defaults.map(({ path }) => path.segments), ...mutations.flatMap(pathsWritten)];
  const kinds = match.apiGroups
    .filter((group) => !isOfCustomKinds(group))
    .flatMap((group) => match.apiVersions.map((version) => (group === '' ? version : `${group}/${version}`)))
    .flatMap((version) => match.resources.map((one) => `${version}/${splitResource(one).resource}`));
  const isOfAll = (path: Path): boolean =>
    kinds.every((kind) => isKnown(path, { fields: { metadata: METADATA, ...KINDS[kind] } }));
  return written.every(isOfAll)
    ? undefined
    : 'it may write a field that a built-in kind lacks, and the API server would then refuse all objects';
}

function isKnown([first, ...rest]: Path, known: Known | undefined): boolean {
  if (known === undefined) return false;
  if (first === undefined) return typeof known === 'string';
  if (known === 'value') return false;
  if (known === 'map') return first.kind === 'field' && rest.length === 0;
  if ('items' in known) return first.kind !== 'field' && isKnown(rest, known.items);
  return (
    first.kind === 'field' &&
    Object.hasOwn(known.fields, first.name) &&
    isKnown(rest, known.fields[first.name])
  );
}

/** Groups of built-in kinds are short names or end in k8s.io. */
export const isOfCustomKinds = (group: string): boolean =>
  group.includes('.') && !/(^|\.)k8s\.io$/.test(group);
