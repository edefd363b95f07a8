/** What `gatehouse restore rehearse` predicts for a random graph. */
import { rehearseRestore } from '../../src/cli/restore/rehearse/rehearsal.ts';
import type { Rehearsal } from '../../src/cli/restore/rehearse/report.ts';
import type { JsonObject } from '../../src/json/json.ts';
import { groupResourceName, objectKey } from '../../src/json/kube-object.ts';
import type { Graph } from './restore-graph.ts';
import { applicationPolicy, kindManifests, slugPolicy } from './restore-kinds.ts';

const placed = (objects: readonly object[]) =>
  objects.map((object) => ({
    object: JSON.parse(JSON.stringify(object)) as JsonObject, // an object without undefined fields
    place: { file: 'graph' },
  }));

export const predict = async ({ backup, spec }: Graph): Promise<Rehearsal> =>
  await rehearseRestore(
    {
      objects: placed(backup),
      own: placed([applicationPolicy, slugPolicy]),
      existing: placed(kindManifests),
      notes: [],
    },
    {
      namespaceMappings: Object.entries(spec.namespaceMapping ?? {}).map((pair) => pair.join(':')),
      includeNamespaces: spec.includedNamespaces ?? [],
      existingResourcePolicy: 'none',
      veleroNamespace: 'velero',
      window: true,
      output: 'table',
    },
    new Date(),
  );

/** The objects that the restore stores, e.g. `applications.restore.example.com east/cart`. */
export const restoredIn = ({ outcomes }: Rehearsal): readonly string[] =>
  outcomes
    .filter(({ result, item }) => result === 'restored' && item.resource.group !== '')
    .map(
      ({ item: { resource, name }, namespace }) =>
        `${groupResourceName(resource)} ${objectKey({ namespace, name })}`,
    )
    .toSorted();

/** The objects that Velero would lose, as `east/cart`. */
export const refusedIn = ({ outcomes }: Rehearsal): readonly string[] =>
  outcomes
    .filter(({ result }) => result !== 'restored' && result !== 'exists')
    .map(({ item: { name }, namespace }) => objectKey({ namespace, name }))
    .toSorted();
