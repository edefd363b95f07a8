/** Decides which RestoreWindow reports a violation, so that each one is in one report, or in the audit. */
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow, Violation } from '../api/restore-window.ts';
import type { GroupResource } from '../json/kube-object.ts';
import { isWithin, labelOf, spanOf, type AttributionLabel, type CreationMetadata } from './restored-by.ts';
import { covers } from './window.ts';

interface WrittenMetadata extends CreationMetadata {
  /** Times of later writes, RFC 3339, as far as managedFields show them. A tool that writes managedFields hides its own. */
  readonly changedAt: readonly string[];
}

/** A confirmed violation, with what shows which restore wrote its object. */
export interface SweptViolation {
  readonly violation: Violation;
  readonly resource: GroupResource;
  readonly written: WrittenMetadata;
  /** Whether the audit of the policy finds the violation too. */
  readonly isAudited: boolean;
}

interface Known {
  readonly window: RestoreWindow;
  readonly span: ReturnType<typeof spanOf>;
  readonly label: AttributionLabel | undefined;
}

/**
 * The window that reports a violation; undefined if only the audit does. The order of `windows` has no influence.
 *
 * @param settleMs how long after admission the API server may still store a write
 * @param digest hexadecimal SHA-256
 */
export function reportingWindow(
  windows: readonly RestoreWindow[],
  detectors: readonly RestoreDetector[],
  settleMs: number,
  digest: (text: string) => string,
): (found: SweptViolation) => RestoreWindow | undefined {
  const newestFirst = windows
    .map((window) => ({
      window,
      span: spanOf(window, settleMs),
      label: labelOf(window, detectors, digest),
    }))
    .toSorted((a, b) => b.span.from - a.span.from || (nameOf(a) < nameOf(b) ? -1 : 1));
  const [full, restores] = [newestFirst.filter(isFullSweep), newestFirst.filter((one) => !isFullSweep(one))];
  const attributionKeys = new Set(detectors.flatMap(({ spec }) => spec.attributionLabel?.key ?? []));
  return (found) => {
    const writer = writerOf(found, restores, attributionKeys);
    // The report of a completed window is final: the violation is younger.
    if (writer !== undefined && !isFinal(writer)) return writer.window;
    // The mapping of another restore proves nothing about this object, and no check was deferred for it.
    if (found.violation.reason === 'CrossesNamespaceMapping') return undefined;
    const sweeping = full.find((one) => !isFinal(one));
    if (sweeping !== undefined || found.isAudited) return sweeping?.window;
    return restores.find((one) => !isFinal(one) && isCovered(one, found))?.window;
  };
}

const nameOf = ({ window }: Known): string => window.metadata.name ?? '';

/** Windows of these types defer nothing. They report what no restore wrote. */
const isFullSweep = ({ window: { spec } }: Known): boolean =>
  spec.source?.type === 'Rollback' || spec.source?.type === 'Startup';

const isFinal = ({ window: { status } }: Known): boolean =>
  status?.phase === 'Completed' || status?.phase === 'Refused';

const isCovered = ({ window }: Known, { resource, written: { namespace } }: SweptViolation): boolean =>
  covers(window.spec, { ...resource, namespace });

/** The newest restore that wrote the object. */
function writerOf(
  found: SweptViolation,
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
  if (labelled.length > 0) return labelled.find(({ span }) => isWithin(span, created)) ?? labelled[0];
  const isLabelled = Object.keys(labels).some((key) => attributionKeys.has(key));
  return restores.find((one) => {
    if (!isCovered(one, found)) return false;
    if (one.label === undefined) return writes.some((time) => isWithin(one.span, time));
    // Velero labels no Namespace.
    const isNamespace = found.resource.group === '' && found.resource.resource === 'namespaces';
    return isNamespace && !isLabelled && isWithin(one.span, created);
  });
}
