/**
 * Judges what is stored. It knows the policies of `kinds.ts` only as the plain checks below, and shares no code with
 * `src/admission` and `src/cel`.
 *
 * A violation counts if a write introduced it. It may be explained: by an exception, by the restore window of the
 * writer, or because the stored object had the same violation before (the ratchet). A documented race between a
 * reference and a deletion of its target also explains it.
 */
import { COLORS, HANDLED, MARK, MOST_REPLICAS } from './kinds.ts';
import { at, isObject, type Json } from './objects.ts';
import type { Kind, Step, Write } from './steps.ts';

export type Stored = Readonly<Record<Kind, ReadonlyMap<string, Json>>>;

function show(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined ? 'absent' : JSON.stringify(value);
}

interface Violation {
  readonly check: string;
  readonly problem: string;
}

type Excuses = ReturnType<typeof excusesOf>;

export const uidOf = (object: unknown) => at(object, 'metadata', 'uid');
const versionOf = (object: unknown) => at(object, 'metadata', 'resourceVersion');
export const isDeleting = (object: unknown) => at(object, 'metadata', 'deletionTimestamp') !== undefined;
const specOf = (object: Json | undefined, field: string) => at(object, 'spec', field) ?? undefined;

/**
 * What is wrong after the step, one line per violation.
 *
 * @param restored the uids of objects that a restorer wrote with a value that another object holds: added to by this
 *   call. Only one of the holders of such a value has the claim.
 */
export function judgeStep(before: Stored, after: Stored, step: Step, restored: Set<unknown>): string[] {
  const excuses = excusesOf(step);
  const found: string[] = [];
  for (const [name, widget] of after.widgets) {
    const old = same(before.widgets.get(name), widget);
    if (versionOf(old) === versionOf(widget)) continue;
    const known = old === undefined ? [] : widgetViolations(old, after);
    const introduced = [...widgetViolations(widget, after), ...changeViolations(old, widget)].filter(
      (one) => !known.some((each) => isSame(each, one, isDeleting(old))),
    );
    for (const { check, problem } of introduced)
      if (!isExcused(check, name, widget, after, excuses))
        found.push(`widgets/${name}: ${check}: ${problem}`);
  }
  for (const [name, deployment] of after.deployments) {
    const old = same(before.deployments.get(name), deployment);
    if (versionOf(old) === versionOf(deployment)) continue;
    const known = old === undefined ? [] : deploymentViolations(old);
    for (const one of deploymentViolations(deployment))
      if (!known.some((each) => isSame(each, one, isDeleting(old))))
        found.push(`deployments/${name}: ${one.check}: ${one.problem}`);
  }
  return [...found, ...shared(before, after, excuses, restored), ...deletions(before, after, excuses)];
}

function excusesOf(step: Step) {
  const writes: readonly Write[] = step;
  const isRace = writes.length > 1;
  return {
    restorer: writes.some(({ as }) => as === 'restorer'),
    mover: writes.some(({ as }) => as === 'mover'),
    binRace: isRace && writes.some(({ kind }) => kind === 'bins'),
    keepRace: isRace && writes.some(({ via, kind }) => kind === 'widgets' && !via.startsWith('delete')),
  };
}

const same = (old: Json | undefined, object: Json) => (uidOf(old) === uidOf(object) ? old : undefined);

/** On an object in deletion, Gatehouse compares the field and the message, which do not contain the value. */
const isSame = (one: Violation, other: Violation, deleting: boolean) =>
  one.check === other.check && (deleting || one.problem === other.problem);

function widgetViolations(widget: Json, { bins }: Stored): readonly Violation[] {
  const found: Violation[] = [];
  const report = (check: string, problem: string) => found.push({ check, problem });
  const [color, units, bin] = [specOf(widget, 'color'), specOf(widget, 'units'), specOf(widget, 'bin')];
  const replicas = specOf(widget, 'replicas');
  if (!COLORS.includes(color)) report('schema', `spec.color is ${show(color)}`);
  if (specOf(widget, 'tier') === undefined) report('default', 'spec.tier is absent');
  if (at(widget, 'metadata', 'labels', MARK) !== 'yes') report('mutation', `the label ${MARK} is missing`);
  if (at(widget, 'metadata', 'labels', HANDLED) !== 'yes')
    report('handled', `the label ${HANDLED} is missing`);
  if (specOf(widget, 'note') === 'secret') report('note', 'spec.note is secret');
  if (specOf(widget, 'owner') === 'root') report('owner', 'spec.owner is root');
  if (typeof replicas === 'number' && replicas > MOST_REPLICAS)
    report('replicas', `spec.replicas is ${replicas}`);
  if (at(widget, 'status', 'phase') === 'broken') report('phase', 'status.phase is broken');
  for (const field of ['bin', 'spare', 'home']) {
    const name = specOf(widget, field);
    if (name === undefined ? field === 'bin' : !bins.has(show(name)))
      report(field, `spec.${field} is ${show(name)}, which does not exist`);
  }
  const capacity = specOf(bins.get(show(bin)), 'capacity');
  if (typeof units === 'number' && !(typeof capacity === 'number' && units <= capacity))
    report('fits', `spec.units is ${units}, and bin ${show(bin)} has capacity ${show(capacity)}`);
  return found;
}

function changeViolations(old: Json | undefined, widget: Json): readonly Violation[] {
  const [zone, level] = [specOf(old, 'zone'), specOf(old, 'level')];
  const [newZone, newLevel] = [specOf(widget, 'zone'), specOf(widget, 'level')];
  return [
    ...(zone === undefined || zone === newZone
      ? []
      : [{ check: 'immutable', problem: `spec.zone was ${show(zone)} and is ${show(newZone)}` }]),
    ...(typeof level === 'number' && !(typeof newLevel === 'number' && newLevel >= level)
      ? [{ check: 'level', problem: `spec.level was ${level} and is ${show(newLevel)}` }]
      : []),
  ];
}

function deploymentViolations(deployment: Json): readonly Violation[] {
  const verdict = at(deployment, 'metadata', 'labels', 'verdict');
  const replicas = at(deployment, 'spec', 'replicas');
  return [
    ...(verdict === 'good' ? [] : [{ check: 'verdict', problem: `the verdict is ${show(verdict)}` }]),
    ...(typeof replicas === 'number' && replicas > MOST_REPLICAS
      ? [{ check: 'replicas', problem: `spec.replicas is ${replicas}` }]
      : []),
  ];
}

function isExcused(check: string, name: string, widget: Json, { bins }: Stored, excuses: Excuses): boolean {
  const isReference = ['bin', 'spare', 'home'].includes(check);
  if (isReference) return excuses.restorer || excuses.binRace;
  if (check === 'owner') return name.startsWith('exempt-');
  if (check === 'schema') return excuses.mover;
  if (check === 'mutation') return excuses.restorer; // a restore stores what the backup contains
  // The rule depends on a target that the restorer may create later.
  if (check === 'fits')
    return excuses.binRace || (excuses.restorer && !bins.has(show(specOf(widget, 'bin'))));
  return false;
}

/** Serials with several holders, unless they had the same holders before. */
function shared(before: Stored, after: Stored, { restorer }: Excuses, restored: Set<unknown>): string[] {
  const bySerial = Map.groupBy(after.widgets, ([, widget]) => specOf(widget, 'serial'));
  bySerial.delete(undefined);
  return [...bySerial].flatMap(([serial, holders]) => {
    if (holders.length < 2) return [];
    const added = holders.filter(([name, widget]) => {
      const old = same(before.widgets.get(name), widget);
      return specOf(old, 'serial') !== serial;
    });
    if (added.length === 0) return [];
    if (restorer) for (const [, widget] of added) restored.add(uidOf(widget));
    if (holders.some(([, widget]) => restored.has(uidOf(widget)))) return [];
    const names = holders.map(([name]) => name).join(' and ');
    return [`widgets: unique: ${names} share the serial ${show(serial)}`];
  });
}

/** Whether the garbage collector deletes the Widget together with the Bin, so that it does not protect the Bin. */
function isOwnedOnlyBy(widget: Json, bin: Json): boolean {
  const owners = at(widget, 'metadata', 'ownerReferences');
  return Array.isArray(owners) && owners.length > 0 && owners.every((one) => at(one, 'uid') === uidOf(bin));
}

/** Widgets that protect their Bin, as `widget → bin`. */
export function protectedBins({ widgets, bins }: Stored): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [name, widget] of widgets) {
    const home = show(specOf(widget, 'home'));
    const bin = bins.get(home);
    if (bin !== undefined && !isDeleting(widget) && !isOwnedOnlyBy(widget, bin)) found.set(name, home);
  }
  return found;
}

function deletions(before: Stored, after: Stored, { binRace, keepRace }: Excuses): string[] {
  const isDeleted = (kind: Kind, name: string) => {
    const [old, now] = [before[kind].get(name), after[kind].get(name)];
    return old !== undefined && !isDeleting(old) && (uidOf(old) !== uidOf(now) || isDeleting(now));
  };
  const kept = [...before.widgets]
    .filter(([name, widget]) => {
      const labels = at(widget, 'metadata', 'labels');
      return isObject(labels) && 'keep' in labels && isDeleted('widgets', name) && !keepRace;
    })
    .map(([name]) => `widgets/${name}: keep: it was deleted`);
  const pods = [...before.pods.keys()]
    .filter((name) => name.startsWith('keep') && isDeleted('pods', name))
    .map((name) => `pods/${name}: keep: it was deleted`);
  const still = protectedBins({ ...before, widgets: after.widgets });
  const homes = [...protectedBins(before)]
    .filter(([widget, bin]) => still.get(widget) === bin && isDeleted('bins', bin) && !binRace)
    .map(([widget, bin]) => `bins/${bin}: home: it was deleted, and widgets/${widget} names it`);
  return [...kept, ...pods, ...homes];
}
