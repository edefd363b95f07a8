/** Decides which RestoreWindow reports a violation, so that each one is in one report, or in the audit. */
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow, Violation } from '../api/restore-window.ts';
import type { GroupResource } from '../json/kube-object.ts';
import { isWithin, knownOf, type CreationMetadata, type Known } from './restored-by.ts';
import { covers, hasFinalReport } from './window.ts';

interface WrittenMetadata extends CreationMetadata {
  /** Times of later writes, RFC 3339, as far as managedFields show them. A tool that writes managedFields hides its own. */
  readonly changedAt: readonly string[];
}

interface Written {
  readonly resource: GroupResource;
  readonly written: WrittenMetadata;
}

export interface SweptViolation extends Written {
  readonly violation: Violation;
  readonly isAudited: boolean;
}

/** @param settleMs how long after admission a write may still be stored */
export function createAttribution(
  windows: readonly RestoreWindow[],
  detectors: readonly RestoreDetector[],
  settleMs: number,
) {
  const newestFirst = windows
    .map((window) => knownOf(window, detectors, settleMs))
    .toSorted(
      (a, b) =>
        Number(isBeingDeleted(a)) - Number(isBeingDeleted(b)) ||
        b.span.from - a.span.from ||
        (nameOf(a) < nameOf(b) ? -1 : 1),
    );
  const [full, restores] = [newestFirst.filter(isFullSweep), newestFirst.filter((one) => !isFullSweep(one))];
  const attributionKeys = new Set(detectors.flatMap(({ spec }) => spec.attributionLabel?.key ?? []));
  const writer = (object: Written): RestoreWindow | undefined => {
    const found = writerOf(object, restores, attributionKeys);
    // The report of a completed window is final: what is found now is younger.
    return found === undefined || isFinal(found) ? undefined : found.window;
  };
  const reporter = (found: SweptViolation): RestoreWindow | undefined => {
    const own = writer(found);
    if (own !== undefined) return own;
    // The mapping of another restore proves nothing about this object, and no check was deferred for it.
    if (found.violation.reason === 'CrossesNamespaceMapping') return undefined;
    const sweeping = full.find((one) => !isFinal(one));
    if (sweeping !== undefined || found.isAudited) return sweeping?.window;
    return restores.find((one) => !isFinal(one) && isCovered(one, found))?.window;
  };
  return { writer, reporter };
}

/** Its report disappears with it, so another window of the same restore reports. */
const isBeingDeleted = ({ window }: Known): boolean => window.metadata.deletionTimestamp !== undefined;

const nameOf = ({ window }: Known): string => window.metadata.name ?? '';

/** Windows of these types defer nothing. They report what no restore wrote. */
const isFullSweep = ({ window: { spec } }: Known): boolean =>
  spec.source?.type === 'Rollback' || spec.source?.type === 'Startup';

const isFinal = ({ window }: Known): boolean => hasFinalReport(window);

const isCovered = ({ window }: Known, { resource, written: { namespace } }: Written): boolean =>
  covers(window.spec, { ...resource, namespace });

function writerOf(
  found: Written,
  restores: readonly Known[],
  attributionKeys: ReadonlySet<string>,
): Known | undefined {
  const { labels = {}, creationTimestamp = '', changedAt } = found.written;
  const [created = NaN, ...changes] = [creationTimestamp, ...changedAt].map((time) => Date.parse(time));
  const writes = [created, ...changes];
  // A copy of a restored object has its labels too, but is created later.
  const labelled = restores.filter(
    ({ label, span }) => label !== undefined && labels[label.key] === label.value && created <= span.until,
  );
  const [first] = labelled;
  if (first !== undefined) {
    // A window that ends takes its report with it. Those that end are last.
    const lasting = labelled.filter((one) => isBeingDeleted(first) || !isBeingDeleted(one));
    return lasting.find(({ span }) => isWithin(span, created)) ?? first;
  }
  const isLabelled = Object.keys(labels).some((key) => attributionKeys.has(key));
  const open = restores.filter((one) => {
    if (!isCovered(one, found)) return false;
    if (one.label === undefined) return writes.some((time) => isWithin(one.span, time));
    // Velero labels no Namespace, and policies may remove labels.
    return !isLabelled && isWithin(one.span, created);
  });
  return open.find(({ label }) => label === undefined) ?? open[0];
}
