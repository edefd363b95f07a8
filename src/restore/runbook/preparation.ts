/** The steps of a runbook before the restore: what to install, which detector, what to pause. */
import { GROUP } from '../../api/group.ts';
import type { QuiesceRule } from '../../api/quiesce.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { counted } from '../../json/counted.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import { veleroDetector } from '../detector.ts';
import {
  byResource,
  clusterScopedTargets,
  DEFINITIONS,
  governs,
  isInstalled,
  isOwn,
  labelsOf,
  restoredNamespaceOf,
  nameOf,
  ofResource,
  restoresAllNamespaces,
  type BackedUp,
  type RestoreChoices,
  type RunbookFacts,
} from './facts.ts';
import { DEFAULT_PATH } from '../quiesce/problems.ts';
import { code, codes, commands, table } from './markdown.ts';
import { writersOf } from './writers.ts';

/** A paragraph, a table or a block of commands. */
type Part = string;

/** What must exist before the first object is restored. */
export function installFirst(facts: RunbookFacts): readonly Part[] {
  const { cluster } = facts;
  const gatehouse = isInstalled(cluster)
    ? ['Gatehouse is installed.']
    : [
        'Gatehouse is not installed. Install it, and wait until it is ready:',
        commands(
          facts.choices,
          ['kubectl', 'apply', '-k', 'deploy'],
          ['kubectl', '--namespace', 'gatehouse-system', 'rollout', 'status', 'deployment'],
        ),
      ];
  return [...missingKinds(facts), ...gatehouse, ...policies(facts)];
}

function missingKinds(facts: RunbookFacts): readonly Part[] {
  const { items, cluster, choices } = facts;
  const omitsDefinitions = !restoresAllNamespaces(choices) && clusterScopedTargets(facts).length === 0;
  const inBackup = omitsDefinitions
    ? '**omitted** by Velero, because it is cluster-scoped: install it first, or these objects are lost'
    : 'in the backup: Velero restores it first';
  const restored = new Set(ofResource(items, DEFINITIONS).map(({ object }) => nameOf(object)));
  const rows = byResource(items.filter((item) => !isOwn(item)))
    .filter(([name]) => !cluster.served.has(name))
    .map(([name, { length }]) => [
      code(name),
      String(length),
      restored.has(name) ? inBackup : '**missing**: install it first, or these objects are lost',
    ]);
  if (rows.length === 0) return ['The cluster serves all kinds of the backup.'];
  return ['The cluster does not serve these kinds:', table(['Kind', 'Objects', 'CRD'], rows)];
}

function policies({ cluster, items, choices }: RunbookFacts): readonly Part[] {
  const known = new Set(cluster.policies.map(nameOf));
  const backedUp = ofResource(items, `admissionpolicies.${GROUP}`).map(({ object }) => nameOf(object));
  const missing = backedUp.filter((name) => !known.has(name)).toSorted();
  const notReady = cluster.policies
    .filter(({ status }) => !has(status?.conditions, 'Ready', 'True'))
    .map(nameOf);
  const governed = new Set(
    items.filter(({ resource }) => cluster.policies.some((policy) => governs(policy, resource))),
  );
  return [
    cluster.policies.length === 0
      ? 'The cluster has no policies, so nothing is checked during the restore. Apply yours from git first.'
      : `${counted(cluster.policies.length, 'policy')} in the cluster: ${codes(cluster.policies.map(nameOf))}. They govern ${counted(governed.size, 'object')} of the backup.`,
    ...(missing.length > 0
      ? [`Policies that only the backup has: ${codes(missing)}. Apply them from git before the restore.`]
      : []),
    ...(notReady.length > 0
      ? [
          `Policies that are not ready: ${codes(notReady)}. Find out why:`,
          commands(choices, ['gatehouse', 'status']),
        ]
      : []),
  ];
}

type Conditions = readonly { readonly type: string; readonly status: string }[];

const has = (conditions: Conditions = [], wanted: string, value: 'True' | 'False'): boolean =>
  conditions.some(({ type, status }) => type === wanted && status === value);

/** Which RestoreDetector opens the window. */
export function detector(facts: RunbookFacts): readonly Part[] {
  const { veleroNamespace } = facts.choices;
  const found = detectorOf(facts);
  if (found !== undefined)
    return [
      `The RestoreDetector ${code(nameOf(found))} trusts the namespace ${code(veleroNamespace)}: it opens a window without your help.`,
      ...problemOf(found).flatMap((problem) => [
        problem,
        commands(facts.choices, ['kubectl', 'describe', 'restoredetector', nameOf(found)]),
      ]),
    ];
  const patch = JSON.stringify({
    spec: {
      namespaces: [veleroNamespace],
      principals: [{ group: `system:serviceaccounts:${veleroNamespace}` }],
    },
  });
  return [
    `No RestoreDetector trusts the namespace ${code(veleroNamespace)}. Without one, every object that arrives before its references is lost:`,
    commands(
      facts.choices,
      ['kubectl', 'apply', '-k', 'deploy/detectors/velero'],
      ['kubectl', 'patch', 'restoredetector', 'velero', '--type', 'merge', '--patch', patch],
    ),
  ];
}

/** A detector can be ready without watching: Velero is not installed, or Gatehouse does not serve its namespace. */
function problemOf({ status }: RestoreDetector): readonly string[] {
  if (!has(status?.conditions, 'Ready', 'True')) return ['It is not ready. Find out why:'];
  return has(status?.conditions, 'Watching', 'False')
    ? ['It does not watch Restores, so no window opens. Find out why:']
    : [];
}

/** The detector that counts Restores of Velero in the chosen namespace. */
const detectorOf = ({ cluster, choices }: RunbookFacts): RestoreDetector | undefined =>
  veleroDetector(cluster.detectors, choices.veleroNamespace);

/** What the detector pauses, and what else writes to the kinds that policies govern. */
export function pause(facts: RunbookFacts): readonly Part[] {
  const { items, cluster, choices } = facts;
  const found = detectorOf(facts);
  const rules = found?.spec.quiesce ?? [];
  const others = writersOf(items, cluster.policies).filter(
    ({ workload }) =>
      restoredNamespaceOf(workload, choices) !== choices.veleroNamespace &&
      !rules.some((rule) => pauses(rule, workload, choices)),
  );
  return [
    ...(found === undefined || rules.length === 0
      ? ['The detector pauses nothing.']
      : [
          `The RestoreDetector ${code(nameOf(found))} pauses these objects while the window is open:`,
          table(
            ['Kind', 'Labels', 'Field', 'Objects in the backup'],
            rules.map((rule) => rowOf(rule, facts)),
          ),
        ]),
    ...(others.length === 0
      ? []
      : [
          'These workloads of the backup may create or delete objects that policies govern. If one acts on half a cluster, it creates duplicates or deletes objects: name it in `spec.quiesce` of the detector.',
          table(
            ['Workload', 'Namespace', 'Labels', 'May write'],
            others.map(({ workload, writes }) => [
              code(`${groupResourceName(workload.resource)}/${nameOf(workload.object)}`),
              code(restoredNamespaceOf(workload, choices)),
              codes(textsOf(labelsOf(workload)), 3),
              codes(writes, 4),
            ]),
          ),
        ]),
  ];
}

const textsOf = (labels: Readonly<Record<string, unknown>>): readonly string[] =>
  Object.entries(labels).flatMap(([key, value]) => (typeof value === 'string' ? [`${key}=${value}`] : []));

/** Rules name the namespaces of the cluster, not of the backup. */
function pauses(rule: QuiesceRule, item: BackedUp, choices: RestoreChoices): boolean {
  const labels = labelsOf(item);
  return (
    groupResourceName(toGroupResource(rule)) === groupResourceName(item.resource) &&
    (rule.namespaces?.includes(restoredNamespaceOf(item, choices)) ?? true) &&
    Object.entries(rule.matchLabels).every(([key, wanted]) => labels[key] === wanted)
  );
}

function rowOf(rule: QuiesceRule, { items, choices }: RunbookFacts): readonly string[] {
  const { matchLabels, path = DEFAULT_PATH, value = 0 } = rule;
  return [
    code(groupResourceName(toGroupResource(rule))),
    codes(textsOf(matchLabels)),
    code(`${path}: ${JSON.stringify(value)}`),
    String(items.filter((item) => pauses(rule, item, choices)).length),
  ];
}
