/** How a RestoreDetector reads the objects of a backup tool. */
import { parseDuration } from '../api/duration.ts';
import type { RestoreDetector } from '../api/restore-detector.ts';
import { principalProblems } from '../api/principals.ts';
import { quiesceProblems, MAX_WINDOW_MS } from './window.ts';

/** `unknown`: the detector does not list the phase. */
export type SourceActivity = 'new' | 'active' | 'settling' | 'over' | 'unknown';

export type RestoreSource = ReturnType<typeof readSource>;

/** `settleMs`: undefined for the default of all windows. @throws RangeError if a duration is invalid; `detectorProblems` reports such durations */
export function timesOf({ spec }: RestoreDetector) {
  const { maxDuration = '6h', settle, idle = '30s' } = spec.window ?? {};
  const settleMs = settle === undefined ? undefined : toMs(settle);
  return { maxDurationMs: toMs(maxDuration), settleMs, idleMs: toMs(idle) };
}

function toMs(text: string): number {
  const parsed = parseDuration(text);
  if (parsed === undefined) throw new RangeError(`"${text}" is not a duration`);
  return parsed;
}

export const isEnabled = (detector: RestoreDetector): boolean =>
  detector.spec.namespaces.length > 0 && detectorProblems(detector).length === 0;

/** In other namespaces, other users could create sources. */
export function isTrusted({ spec }: RestoreDetector, namespace: string | undefined): boolean {
  // users who may write cluster-scoped objects are trusted anyway
  if (namespace === undefined) return spec.namespaces.length > 0;
  return spec.namespaces.includes(namespace) || spec.namespaces.includes('*');
}

export const veleroDetector = (
  detectors: readonly RestoreDetector[],
  namespace: string,
): RestoreDetector | undefined =>
  detectors.find(
    (one) =>
      one.spec.watch.apiGroup === 'velero.io' &&
      one.spec.watch.resource === 'restores' &&
      isEnabled(one) &&
      isTrusted(one, namespace),
  );

export function readSource({ spec }: RestoreDetector, object: object) {
  const text = (path: string | undefined): string => {
    const value = path === undefined ? undefined : fieldAt(object, path);
    return typeof value === 'string' ? value : '';
  };
  const phase = text(spec.phasePath);
  const started = new Date(text(spec.startPath));
  const created = new Date(text('metadata.creationTimestamp'));
  return {
    namespace: text('metadata.namespace') || undefined,
    name: text('metadata.name'),
    uid: text('metadata.uid'),
    apiVersion: text('apiVersion'),
    kind: text('kind'),
    phase,
    activity: activityOf(spec, phase),
    startedAt: Number.isNaN(started.getTime()) ? created : started,
    createdAt: created,
    /** Whether all objects are written. The source may still be busy, for example with volumes. */
    allWritten: isAllWritten(spec, object),
    namespaceMapping: mappingOf(spec, object),
    targetNamespace: text(spec.scope?.targetNamespacePath) || undefined,
  };
}

function activityOf(spec: RestoreDetector['spec'], phase: string): SourceActivity {
  if (spec.activeValues.includes(phase)) return 'active';
  if (spec.settlingValues?.includes(phase) === true) return 'settling';
  if (spec.terminalValues?.includes(phase) === true) return 'over';
  if (phase === '' || phase === 'New') return 'new';
  // Some tools write the time of completion instead of a phase.
  return spec.terminalValues === undefined ? 'over' : 'unknown';
}

function isAllWritten({ progress }: RestoreDetector['spec'], object: object): boolean {
  if (progress === undefined) return false;
  // NaN, and so false, for anything but a number or a text that contains one
  const [done = NaN, total = NaN] = [progress.donePath, progress.totalPath].map((path) => {
    const value = fieldAt(object, path);
    return ['number', 'string', 'bigint'].includes(typeof value) ? Number(value) : NaN;
  });
  return total > 0 && done >= total;
}

function mappingOf(
  { namespaceMappingPath }: RestoreDetector['spec'],
  object: object,
): Readonly<Record<string, string>> {
  const value = namespaceMappingPath === undefined ? undefined : fieldAt(object, namespaceMappingPath);
  if (typeof value !== 'object' || value === null) return {};
  const isText = (entry: [string, unknown]): entry is [string, string] => typeof entry[1] === 'string';
  return Object.fromEntries(Object.entries(value).filter(isText));
}

export function detectorProblems({ spec }: RestoreDetector): readonly string[] {
  const paths: readonly (readonly [string, string | undefined])[] = [
    ['spec.phasePath', spec.phasePath],
    ['spec.startPath', spec.startPath],
    ['spec.progress.donePath', spec.progress?.donePath],
    ['spec.progress.totalPath', spec.progress?.totalPath],
    ['spec.namespaceMappingPath', spec.namespaceMappingPath],
    ['spec.scope.targetNamespacePath', spec.scope?.targetNamespacePath],
  ];
  const everywhere = spec.namespaces.includes('*') && spec.scope?.mode !== 'SourceNamespace';
  return [
    ...(spec.activeValues.length === 0
      ? ['spec.activeValues: add the phase in which objects are written']
      : []),
    ...(everywhere
      ? [
          'spec.namespaces: `*` trusts every namespace, so it needs spec.scope.mode SourceNamespace, which limits each to itself',
        ]
      : []),
    ...principalProblems(spec.principals, 'spec.principals'),
    ...paths.flatMap(([where, path]) =>
      path === undefined || isFieldPath(path)
        ? []
        : [`${where}: "${path}" is not a path such as status.phase`],
    ),
    ...durationProblems(spec.window ?? {}),
    ...quiesceProblems(spec.quiesce),
  ];
}

function durationProblems(window: NonNullable<RestoreDetector['spec']['window']>): readonly string[] {
  return Object.entries(window).flatMap(([key, text]) => {
    const parsed = parseDuration(text);
    if (parsed === undefined) return [`spec.window.${key}: "${text}" is not a duration such as 6h or 1m30s`];
    return key === 'maxDuration' && parsed > MAX_WINDOW_MS
      ? [`spec.window.maxDuration: "${text}" is longer than 24h, the longest duration of a window`]
      : [];
  });
}

/** At a path such as `status.phase` or `metadata.annotations["a.b/c"]`. */
function fieldAt(object: unknown, path: string): unknown {
  let value: unknown = object;
  for (const [, plain, quoted] of path.matchAll(/(?:^|\.)([^.[\]"]+)|\["([^"]*)"\]/g)) {
    const name = plain ?? quoted ?? '';
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    // the check above shows that it is an object with that own property
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}

const isFieldPath = (path: string): boolean => /^[^.[\]"]+(?:\.[^.[\]"]+|\["[^"]*"\])*$/.test(path);
