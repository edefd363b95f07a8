/** The steps of one restore into one cluster, as Markdown. */
import { counted } from '../../json/counted.ts';
import { listIn } from '../../json/json.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import {
  byResource,
  clusterScopedTargets,
  governs,
  isOwn,
  nameOf,
  namespacesOf,
  restoresAllNamespaces,
  type RunbookFacts,
} from './facts.ts';
import { code, codes, commands, table } from './markdown.ts';
import { detector, installFirst, pause } from './preparation.ts';

/** The namespace in which deploy/ installs Gatehouse. */
const OWN_NAMESPACE = 'gatehouse-system';

export function runbookOf(facts: RunbookFacts): string {
  const { items, cluster, choices } = facts;
  const namespaces = namespacesOf(items);
  const steps: readonly (readonly [string, readonly string[]])[] = [
    ['Install first', installFirst(facts)],
    ['Rehearse', rehearse(facts)],
    ['Check the detector', detector(facts)],
    ['Pause controllers', pause(facts)],
    ['Restore', restore(facts)],
    ['Check afterwards', checks(facts)],
  ];
  const parts = [
    `# Restore ${code(choices.backup)}`,
    `${counted(items.length, 'object')} of ${counted(byResource(items).length, 'kind')} in ${counted(namespaces.length, 'namespace')}, into ${code(cluster.server)} (Kubernetes ${cluster.version}).`,
    ...steps.flatMap(([title, content], index) => [`## ${index + 1}. ${title}`, ...content]),
  ];
  return `${parts.join('\n\n')}\n`;
}

/** The flags of Velero that the user has chosen. */
function selection({ choices }: RunbookFacts): readonly string[] {
  const { includeNamespaces, namespaceMapping, existingResourcePolicy } = choices;
  const mappings = Object.entries(namespaceMapping).map((pair) => pair.join(':'));
  return [
    ...(includeNamespaces.length > 0 ? ['--include-namespaces', includeNamespaces.join(',')] : []),
    ...(mappings.length > 0 ? ['--namespace-mappings', mappings.join(',')] : []),
    ...(existingResourcePolicy === 'update' ? ['--existing-resource-policy', 'update'] : []),
  ];
}

/** What Velero must leave out or include, in addition. */
function additions(facts: RunbookFacts) {
  const { choices, items } = facts;
  const own = [...new Set(items.filter(isOwn).map(({ resource }) => groupResourceName(resource)))].toSorted();
  const excludesNamespace = restoresAllNamespaces(choices) && namespacesOf(items).includes(OWN_NAMESPACE);
  const targets = clusterScopedTargets(facts);
  return {
    own,
    excluded: [
      ...(own.length > 0 ? ['--exclude-resources', own.join(',')] : []),
      ...(excludesNamespace ? ['--exclude-namespaces', OWN_NAMESPACE] : []),
    ],
    excludesNamespace,
    targets,
    /** Otherwise, Velero restores cluster-scoped objects only with all namespaces. */
    needsClusterScoped: excludesNamespace || targets.length > 0,
  };
}

/** With the policies of the cluster, which the step before has installed. */
function rehearse(facts: RunbookFacts): readonly string[] {
  const { choices } = facts;
  const { excluded, needsClusterScoped } = additions(facts);
  return [
    'See what the restore would lose or break. The command writes nothing; exit code 0 means no problems.',
    commands(choices, [
      ...['gatehouse', 'restore', 'rehearse', choices.path, '--policies-from-cluster'],
      ...['--velero-namespace', choices.veleroNamespace, ...selection(facts), ...excluded],
      ...(needsClusterScoped ? ['--include-cluster-resources'] : []),
    ]),
  ];
}

function restore(facts: RunbookFacts): readonly string[] {
  const { choices } = facts;
  const { own, excluded, excludesNamespace, targets, needsClusterScoped } = additions(facts);
  const flags = [
    ...selection(facts),
    ...excluded,
    ...(needsClusterScoped ? ['--include-cluster-resources=true'] : []),
  ];
  return [
    commands(choices, [
      ...['velero', 'restore', 'create', '--from-backup', choices.backup],
      ...['--namespace', choices.veleroNamespace, ...flags, '--wait'],
    ]),
    ...(own.length > 0
      ? [
          `The backup contains objects of Gatehouse (${codes(own)}). They come from git or from the running Gatehouse, not from a backup.`,
        ]
      : []),
    ...(targets.length > 0
      ? [
          `Without ${code('--include-cluster-resources=true')}, Velero omits ${codes(targets)}, which objects in the selected namespaces reference.`,
        ]
      : []),
    ...(excludesNamespace
      ? [
          `Without ${code('--include-cluster-resources=true')}, Velero omits all cluster-scoped objects, because ${code(OWN_NAMESPACE)} is excluded.`,
        ]
      : []),
    ...(choices.existingResourcePolicy === 'update'
      ? [
          'The policy `update` also overwrites the CA bundles and Secrets of other software with old ones. Gatehouse repairs its own.',
        ]
      : []),
  ];
}

function checks(facts: RunbookFacts): readonly string[] {
  return [
    'The window closes by itself, and the final sweep follows. Wait for the report of its window:',
    commands(
      facts.choices,
      ['gatehouse', 'restore', 'status'],
      ['gatehouse', 'restore', 'status', '<window>', '--watch'],
    ),
    ...owners(facts),
    'Velero lists what it could not restore:',
    commands(facts.choices, [
      ...['velero', 'restore', 'describe', '<restore>', '--details'],
      ...['--namespace', facts.choices.veleroNamespace],
    ]),
    'Gatehouse itself must be healthy:',
    commands(facts.choices, ['gatehouse', 'doctor']),
  ];
}

/** Velero drops owner references; only policies with `owners.preserve` bring them back. */
function owners({ items, cluster }: RunbookFacts): readonly string[] {
  const owned = items.filter(({ object }) => listIn(object, 'metadata', 'ownerReferences').length > 0);
  if (owned.length === 0) return [];
  const rows = byResource(owned).map(([name, group]) => {
    const policy = cluster.policies.find(
      (one) =>
        one.spec.owners?.preserve === true && group[0] !== undefined && governs(one, group[0].resource),
    );
    return [
      code(name),
      String(group.length),
      policy === undefined
        ? '**lost**: add `owners.preserve` to a policy before the next backup'
        : `linked again by the policy ${code(nameOf(policy))}`,
    ];
  });
  return [
    'Velero drops owner references:',
    table(['Kind', 'Objects with owners', 'After the restore'], rows),
  ];
}
