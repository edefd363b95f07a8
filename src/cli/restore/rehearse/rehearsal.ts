/** Rehearses a restore: replays the objects of a backup, and collects the findings. */
import type { RestoreDetector } from '../../../api/restore-detector.ts';
import { GROUP } from '../../../api/group.ts';
import { ownNamespace } from '../../../config/config.ts';
import type { BackupItem } from '../../../restore/backup/backup.ts';
import { restoreOrder } from '../../../restore/backup/restore-order.ts';
import { createSelection, type Skipped } from '../../../restore/backup/selection.ts';
import type { PlacedObject } from '../../review/documents.ts';
import { userOf } from '../../review/flags.ts';
import { refuse, UnusableInput } from '../../review/input.ts';
import { createKinds } from '../../review/kinds.ts';
import { readOwn } from '../../review/read-own.ts';
import { createStorage } from '../../../machinery/storage/storage.ts';
import { groupResourceName } from '../../../json/kube-object.ts';
import { messageOf } from '../../../json/error-message.ts';
import { listIn, objectIn, textIn } from '../../../json/json.ts';
import { definitionOf, isDefinition, itemOf, type RehearsalInput } from './input.ts';
import { findingsOf, type Finding } from './findings.ts';
import { minorOf, namesOf, selectorOf, type RehearseFlags } from './flags.ts';
import type { Rehearsal } from './report.ts';
import { namespacesIn, replay } from './replay.ts';
import { createTarget } from './target.ts';
import { shippedDetector, windowOf } from './window.ts';

/** @throws UnusableInput with all problems of CRDs and policies */
export async function rehearseRestore(
  input: RehearsalInput,
  flags: RehearseFlags,
  now: Date,
  onProgress: (done: number, total: number, what: string) => void = () => undefined,
): Promise<Rehearsal> {
  const { names, selection, context } = settingsOf(flags, now);
  const select = createSelection(selection);
  const isRestored = (item: BackupItem) => select(item) === undefined;
  const definitions = input.objects
    .filter(isDefinition)
    .filter((placed) => isRestored(itemOf(placed, NO_KINDS)))
    .filter((placed) => flags.existingResourcePolicy === 'update' || !isInstalled(placed, input.existing))
    .map(definitionOf);
  const { usable, refused } = usableDefinitions(definitions, input.existing);
  const kept = [...input.existing, ...usable];
  const existing = [...kept, ...input.own.filter((placed) => !isWithoutKind(placed, kept))];
  const { window, notes } = windowFor(existing, flags, names.namespaceMapping, now);
  const user = userOf(`system:serviceaccount:${flags.veleroNamespace}:velero`);
  const assumed = new Set<string>();
  const target = createTarget(
    { existing, reviewed: [], namespace: 'default' },
    { ...context, assumeConverted: (name) => assumed.add(name) },
    user,
    window,
  );
  const all = input.objects.map((placed) => itemOf(placed, target.kinds));
  const items = restoreOrder(all.filter(isRestored)).filter(({ object }) => !isDefinition({ object }));
  const outcomes = await replay(
    target,
    items,
    {
      ...names,
      existingResourcePolicy: flags.existingResourcePolicy,
      minor: minorOf(flags.targetVersion),
      namespaces: namespacesIn(all),
    },
    (done, { resource }) => {
      onProgress(done, items.length, groupResourceName(resource));
    },
  );
  const options = { namespaceMapping: names.namespaceMapping, quiesce: window?.spec.quiesce ?? [], now };
  const { findings, violations } = await findingsOf(target, outcomes, options);
  return {
    ...{ outcomes, violations },
    skipped: countSkipped(all, select),
    findings: [...refused, ...findings],
    notes: [
      ...input.notes,
      ...notes,
      ...existing.flatMap(notReady),
      ...target.notes,
      ...[...assumed].map(
        (name) =>
          `${name}: its conversion webhook is not called: all versions are assumed to have the same fields`,
      ),
    ],
  };
}

/** A policy or detector of a cluster that has no effect there, although it exists. */
function notReady({ object }: PlacedObject): readonly string[] {
  const kind = textIn(object, 'kind');
  if (!textIn(object, 'apiVersion').startsWith(`${GROUP}/`)) return [];
  const isFalse = (type: string) =>
    listIn(object, 'status', 'conditions').some(
      (one) => textIn(one, 'type') === type && textIn(one, 'status') === 'False',
    );
  const name = textIn(object, 'metadata', 'name');
  const describe = `kubectl describe ${kind.toLowerCase()} ${name}`;
  if (isFalse('Ready')) return [`${kind} ${name} is not ready: ${describe}`];
  return isFalse('Watching')
    ? [`${kind} ${name} does not watch what it names, so it opens no window: ${describe}`]
    : [];
}

/** Whether the target has this CRD: Velero leaves it as it is. */
const isInstalled = ({ object }: PlacedObject, existing: readonly PlacedObject[]): boolean =>
  existing.some(
    (one) =>
      isDefinition(one) && textIn(one.object, 'metadata', 'name') === textIn(object, 'metadata', 'name'),
  );

/** Whether this is a ConversionPolicy for a kind that the restore does not bring. */
const isWithoutKind = ({ object }: PlacedObject, kept: readonly PlacedObject[]): boolean => {
  const target = objectIn(object, 'spec', 'target');
  const name = groupResourceName({ group: textIn(target, 'apiGroup'), resource: textIn(target, 'resource') });
  return (
    textIn(object, 'kind') === 'ConversionPolicy' &&
    !kept.some((one) => isDefinition(one) && textIn(one.object, 'metadata', 'name') === name)
  );
};

/** Before the kinds are known: only the plural of CRDs is needed. */
const NO_KINDS = { typeOf: () => '' };

function settingsOf(flags: RehearseFlags, now: Date) {
  const silent = {
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: () => undefined,
  };
  return {
    names: namesOf(flags),
    selection: { ...flags, selector: selectorOf(flags.selector) },
    context: { handlers: [], logFor: () => silent, ownNamespace: ownNamespace(), now },
  };
}

/** The CRDs that the API server would accept, and a finding for each other one. */
function usableDefinitions(definitions: readonly PlacedObject[], existing: readonly PlacedObject[]) {
  const accepted = (some: readonly PlacedObject[]): string | undefined => {
    try {
      createKinds([...existing.filter(isDefinition), ...some], createStorage());
      return undefined;
    } catch (error) {
      if (error instanceof UnusableInput) return messageOf(error);
      throw error;
    }
  };
  if (accepted(definitions) === undefined) return { usable: definitions, refused: [] };
  const judged = definitions.map((placed) => ({ placed, message: accepted([placed]) }));
  return {
    usable: judged.filter(({ message }) => message === undefined).map(({ placed }) => placed),
    refused: judged.flatMap(({ placed, message }): readonly Finding[] =>
      message === undefined
        ? []
        : [
            {
              severity: 'problem',
              reason: 'Refused',
              object: `customresourcedefinitions.apiextensions.k8s.io ${itemOf(placed, NO_KINDS).name}`,
              message,
            },
          ],
    ),
  };
}

function windowFor(
  existing: readonly PlacedObject[],
  { window: wanted, veleroNamespace: namespace }: RehearseFlags,
  namespaceMapping: Readonly<Record<string, string>>,
  now: Date,
) {
  const { registry } = createKinds([], createStorage());
  const { found, problems } = readOwn<RestoreDetector>('RestoreDetector', existing, registry);
  refuse(problems);
  const given = found.map(({ object }) => object);
  const detectors = given.length > 0 ? given : [shippedDetector(namespace)];
  const restore = { name: 'rehearsal', namespace, namespaceMapping };
  const window = wanted ? windowOf(detectors, restore, now) : undefined;
  const notes =
    given.length === 0 && wanted
      ? [`no RestoreDetector in the input: the one of deploy/detectors/velero is assumed for ${namespace}`]
      : window === undefined && wanted
        ? [`no RestoreDetector trusts the namespace ${namespace}, so nothing is deferred`]
        : [];
  return { window, notes };
}

function countSkipped(
  all: readonly BackupItem[],
  select: (item: BackupItem) => Skipped | undefined,
): ReadonlyMap<Skipped, number> {
  const counts = new Map<Skipped, number>();
  for (const item of all) {
    const reason = select(item);
    if (reason !== undefined) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return counts;
}
