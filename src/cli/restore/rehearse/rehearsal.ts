/** Rehearses a restore: replays the objects of a backup, and collects the findings. */
import { RESTORER_REFUSED } from '../../../admission/webhooks/protect-own-kinds.ts';
import type { RestoreDetector } from '../../../api/restore-detector.ts';
import { ownNamespace } from '../../../config/config.ts';
import type { BackupItem } from '../../../restore/backup/backup.ts';
import {
  createSelection,
  describeItem,
  hasResource,
  restoreOrder,
  type SelectionOptions,
  selectItems,
  unmatched,
} from '../../../restore/backup/selection.ts';
import { type PlacedObject, UnusableInput } from '../../review/input.ts';
import { userOf } from '../../review/flags.ts';
import { createKinds, isDefinition } from '../../review/kinds.ts';
import { isOwn, usableOwn } from '../../review/policies.ts';
import { createStorage } from '../../../machinery/storage/storage.ts';
import { groupResourceName, toTimestamp } from '../../../json/kube-object.ts';
import { messageOf } from '../../../json/abort.ts';
import { counted } from '../../../json/counted.ts';
import { type JsonObject, listIn, objectIn, textIn } from '../../../json/json.ts';
import { itemOf, type RehearsalInput, minorOf, type RehearseFlags } from './input.ts';
import { settingsOf } from './restore-settings.ts';
import { type Finding, findingsOf, isProblem, notModified, problem, problemsFirst } from './findings.ts';
import { guardFindings } from './guarded.ts';
import { quotaFindings } from './quotas.ts';
import { namespacesIn, replay, createTarget, type Outcome } from './replay.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { ACCOUNTS_OF, isPrincipal } from '../../../api/principals.ts';
import { detectedWindow } from '../../../restore/detected-window.ts';
import { mappedNamespace, modifiedObject } from '../../../restore/backup/restored-object.ts';
import { veleroDetector } from '../../../restore/detector.ts';
import { guardsOf } from '../../../restore/guard.ts';

export type Rehearsal = Awaited<ReturnType<typeof rehearseRestore>>;

export async function rehearseRestore(
  input: RehearsalInput,
  flags: RehearseFlags,
  now: Date,
  onProgress: (done: number, total: number, what: string) => void = () => undefined,
) {
  const served = createKinds(input.existing.filter(isDefinition), createStorage());
  const settings = settingsOf(flags, input.restore, served);
  const { names, selection, existingResourcePolicy, veleroNamespace } = settings;
  const select = createSelection(selection);
  const isRestored = (item: BackupItem) => select(item) === undefined;
  const selected = input.objects
    .filter(isDefinition)
    .filter((placed) => isRestored(itemOf(placed, NO_KINDS)))
    .map((placed) => ({ ...placed, ...modifiedObject(itemOf(placed, NO_KINDS), names) }));
  const definitions = selected.filter(
    (placed) => existingResourcePolicy === 'update' || !hasDefinition(input.existing, nameOf(placed)),
  );
  const { usable, refused } = usableDefinitions(definitions, input.existing);
  const kept = [...input.existing, ...usable];
  const existing = [...kept, ...input.own.filter((placed) => !isWithoutKind(placed, kept))];
  const { window, detectors, notes } = windowFor(
    existing,
    { ...flags, veleroNamespace },
    names.namespaceMapping,
    now,
  );
  const user = userOf(`system:serviceaccount:${veleroNamespace}:velero`);
  const assumed = new Set<string>();
  const target = createTarget(
    { existing, reviewed: [], namespace: 'default' },
    { handlers: [], ownNamespace: ownNamespace(), now, assumeConverted: (name) => assumed.add(name) },
    user,
    window,
  );
  const all = input.objects.map((placed) => itemOf(placed, target.kinds));
  const isKept = ({ object }: PlacedObject) =>
    existingResourcePolicy === 'none' &&
    existing.some((one) => isOwn(one.object) && describeObject(one.object) === describeObject(object));
  const ownWrites = input.refused
    .filter((placed) => !isKept(placed))
    .map((placed) => itemOf(placed, target.kinds))
    .filter(isRestored)
    .map(({ resource, name }) =>
      problem('Refused', `${groupResourceName(resource)} ${name}`, RESTORER_REFUSED),
    );
  const { items, leftOut, skipped, missing } = selectSome(all, selection, input.refused.length);
  const replayed = await replay(
    target,
    items,
    {
      ...names,
      existingResourcePolicy,
      minor: minorOf(flags.targetVersion),
      namespaces: namespacesIn(all),
    },
    (done, { resource }) => {
      onProgress(done, items.length, groupResourceName(resource));
    },
  );
  const unread = input.unread.filter(({ object }) => hasResource(selection, object));
  const nameOfCopy = (item: BackupItem) =>
    describeItem({ ...item, namespace: mappedNamespace(item.namespace, names) });
  /** Velero adds empty fields to CRDs, so existing ones always differ. */
  const ofDefinition = (placed: (typeof selected)[number]): Outcome => {
    const item = itemOf(placed, NO_KINDS);
    const updated = definitions.includes(placed) ? ('updated' as const) : ('different' as const);
    const accepted = hasDefinition(input.existing, item.name) ? updated : ('restored' as const);
    const isRefused = refused.some(({ object }) => object === describeItem(item));
    const result = isRefused ? ('refused' as const) : accepted;
    return { ...placed, item, namespace: undefined, result, message: '', deferred: '' };
  };
  const options = {
    leftOut: new Map([...leftOut].map(([item, reason]) => [nameOfCopy(item), reason])),
    namespaceMapping: names.namespaceMapping,
    quiesce: window?.spec.quiesce ?? [],
    now,
  };
  const { findings, violations } = await findingsOf(target, replayed.outcomes, options);
  const writes = [
    ...usable.map((placed) => ({
      ...itemOf(placed, NO_KINDS),
      oldObject: input.existing.find((one) => isDefinition(one) && nameOf(one) === nameOf(placed))?.object,
    })),
    ...target.writes,
  ];
  const tried = (await input.dryRun?.(replayed.outcomes)) ?? { ...replayed, findings: [] };
  const refusedThere = new Set(tried.findings.filter(isProblem).map(({ object }) => object));
  const guards = guardsOf(detectors, [], now).filter(({ principals }) => isPrincipal(principals, user));
  const guarded = await guardFindings(guards, writes, input.rightsOf);
  return {
    outcomes: tried.outcomes,
    /** What Velero writes besides: CRDs, and the Namespaces that it needs. */
    added: [...selected.map((one) => ofDefinition(one)), ...replayed.added],
    violations,
    skipped,
    findings: problemsFirst([
      ...missing,
      ...unread,
      ...refused,
      ...definitions.flatMap(({ object, failed }) =>
        notModified(describeItem(itemOf({ object, place: { file: '' } }, NO_KINDS)), failed),
      ),
      ...(window === undefined ? [] : ownWrites),
      ...guarded,
      ...findings,
      ...tried.findings,
      ...quotaFindings(target, refusedThere),
    ]),
    notes: [
      ...input.notes,
      ...settings.notes,
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

export const skippedLines = (skipped: ReadonlyMap<string, number>): readonly string[] =>
  [...skipped].map(([reason, count]) => `${counted(count, 'object')} left out: ${reason}`);

/** A rehearsal of nothing must not look like a success. @throws UnusableInput */
function selectSome(all: readonly BackupItem[], selection: SelectionOptions, refused: number) {
  const missing = missingNames(all, selection);
  const { items, leftOut } = selectItems(all, selection);
  const byReason = [...Map.groupBy(leftOut.values(), (reason) => reason)];
  const skipped = new Map(byReason.map(([reason, same]) => [reason, same.length]));
  const nothing = 'the backup contains no object that Velero restores, so nothing was rehearsed';
  if (items.length + refused === 0) {
    const why = missing.map(({ object, message }) => `${object}: ${message}`);
    throw new UnusableInput([nothing, ...why, ...skippedLines(skipped)].join('; '));
  }
  const written = restoreOrder(items).filter(({ object }) => !isDefinition({ object }));
  return { items: written, leftOut, skipped, missing };
}

/** Included names that no object of the backup has. */
function missingNames(
  all: readonly BackupItem[],
  { includeNamespaces, includeResources }: SelectionOptions,
): readonly Finding[] {
  const kinds = [...new Set(all.map(({ resource }) => groupResourceName(resource)))];
  const namespaces = [...namespacesIn(all).keys(), ...new Set(all.map(({ namespace = '' }) => namespace))];
  const message = 'not found in the backup, so it is not rehearsed';
  const hint = 'Velero needs the full name of resources that the target does not serve';
  return [
    ...unmatched(includeNamespaces, namespaces).map((name) =>
      problem('NotInBackup', `namespaces ${name}`, message),
    ),
    ...unmatched(includeResources, kinds).map((name) =>
      problem('NotInBackup', `resources ${name}`, `${message}; ${hint}`),
    ),
  ];
}

function notReady({ object }: PlacedObject): readonly string[] {
  const kind = textIn(object, 'kind');
  if (!isOwn(object)) return [];
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

const describeObject = (object: JsonObject): string =>
  `${textIn(object, 'kind')} ${textIn(object, 'metadata', 'name')}`;

const nameOf = ({ object }: PlacedObject): string => textIn(object, 'metadata', 'name');

const hasDefinition = (objects: readonly PlacedObject[], name: string): boolean =>
  objects.some((one) => isDefinition(one) && nameOf(one) === name);

const isWithoutKind = ({ object }: PlacedObject, kept: readonly PlacedObject[]): boolean => {
  const target = objectIn(object, 'spec', 'target');
  const name = groupResourceName({ group: textIn(target, 'apiGroup'), resource: textIn(target, 'resource') });
  return textIn(object, 'kind') === 'ConversionPolicy' && !hasDefinition(kept, name);
};

/** Before the kinds are known: only the plural of CRDs is needed. */
const NO_KINDS = { typeOf: () => '' };

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
    refused: judged.flatMap(({ placed, message }) => {
      const object = `customresourcedefinitions.apiextensions.k8s.io ${itemOf(placed, NO_KINDS).name}`;
      return message === undefined ? [] : problem('Refused', object, message);
    }),
  };
}

function windowFor(
  existing: readonly PlacedObject[],
  { window: wanted, veleroNamespace: namespace }: RehearseFlags,
  namespaceMapping: Readonly<Record<string, string>>,
  now: Date,
) {
  const { registry } = createKinds([], createStorage());
  const given = usableOwn<RestoreDetector>('RestoreDetector', existing, registry);
  const detectors = given.length > 0 ? given : [shippedDetector(namespace)];
  const window = wanted ? windowOf(detectors, namespace, namespaceMapping, now) : undefined;
  const assumed = `no RestoreDetector in the input: the one of deploy/detectors/velero is assumed for ${namespace}`;
  const none = `no RestoreDetector trusts the namespace ${namespace}, so nothing is deferred`;
  const note = given.length === 0 ? assumed : window === undefined ? none : undefined;
  return { window, detectors, notes: wanted && note !== undefined ? [note] : [] };
}

export function windowOf(
  detectors: readonly RestoreDetector[],
  namespace: string,
  namespaceMapping: Readonly<Record<string, string>>,
  now: Date,
): RestoreWindow | undefined {
  const detector = veleroDetector(detectors, namespace);
  if (detector === undefined) return undefined;
  const source = {
    name: 'rehearsal',
    namespace,
    namespaceMapping,
    apiVersion: 'velero.io/v1',
    kind: 'Restore',
    uid: 'rehearsal',
    phase: 'InProgress',
    activity: 'active' as const,
    startedAt: now,
    createdAt: now,
    allWritten: false,
    targetNamespace: undefined,
  };
  const window = detectedWindow(detector, source, now);
  return { ...window, metadata: { ...window.metadata, creationTimestamp: toTimestamp(now) } };
}

/** The detector that deploy/detectors/velero contains, for Velero in this namespace. */
export const shippedDetector = (namespace: string): RestoreDetector => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'RestoreDetector',
  metadata: { name: 'velero' },
  spec: {
    namespaces: [namespace],
    watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
    phasePath: 'status.phase',
    activeValues: ['InProgress'],
    principals: [{ group: `${ACCOUNTS_OF}${namespace}` }],
  },
});
