/** Objects into which Gatehouse injects a CA bundle, and whether the bundle is current. */
import {
  originName,
  sourceName,
  type BundleSource,
  type InjectionRequest,
} from '../../../../pki/injection/request.ts';
import { bundleOfSource, type BundleState } from '../../../../pki/injection/source.ts';
import { parseRecord, withFormerRoots } from '../../../../pki/injection/former-roots.ts';
import { SOURCE_ROOTS } from '../../../../pki/annotations.ts';
import { toTarget, type RawTarget, type TargetKind } from '../../../../pki/injection/target.ts';
import { planInjection, type InjectionPlan } from '../../../../pki/injection/plan.ts';
import { objectKey } from '../../../../json/kube-object.ts';
import {
  withOwnRequest,
  type Scope,
  type SourceReadings,
  type ClusterReadings,
} from '../../read-cluster/read-cluster.ts';
import { unreadOf, valueOf, type Judged, type Listing, type Problems } from '../../read-cluster/reading.ts';

export interface InjectionTargetRow {
  readonly kind: TargetKind['kind'];
  readonly namespace?: string | undefined;
  readonly name: string;
  readonly source: string;
  /** `Invalid`: an annotation or the source is. `Empty`: there is no field for a bundle. `Unknown`: the source is unread. */
  readonly state: 'Current' | 'Stale' | 'Invalid' | 'Empty' | 'Unknown';
  readonly message?: string;
}

export function injectionTargetsPart(
  readings: Pick<ClusterReadings, 'targets' | 'sources' | 'compat' | 'caBundle'>,
  bundle: BundleState,
  namespace: string,
  now: Date,
): Judged<Listing<InjectionTargetRow>> {
  const { targets, sources, compat, caBundle } = readings;
  const scope = { namespace, compat };
  const record = parseRecord(valueOf(caBundle)?.metadata?.annotations?.[SOURCE_ROOTS]);
  const bundleFrom = (source: BundleSource): BundleState => {
    switch (source.kind) {
      case 'authority':
        return bundle;
      case 'api-server':
        return { kind: 'unknown' }; // only the leader knows it
      case 'object':
        return withFormerRoots(ofObject(source, sources, now), record.get(sourceName(source.ref)), now).state;
    }
  };
  const items = targets.flatMap(({ kind, objects }) =>
    (valueOf(objects) ?? []).flatMap((object) =>
      rowOf(kind, withOwnRequest(kind, object, scope), bundleFrom, scope),
    ),
  );
  const unread = [
    ...targets.flatMap(({ kind, objects }) => unreadOf(`${kind.kind}s`, objects)),
    ...[...sources].flatMap(([name, reading]) => unreadOf(name, reading)),
  ];
  return { part: { unread, items }, problems: items.flatMap(problemsOf) };
}

function ofObject(
  { ref, consent }: Extract<BundleSource, { kind: 'object' }>,
  sources: SourceReadings,
  now: Date,
): BundleState {
  const reading = sources.get(sourceName(ref));
  if (reading === undefined || reading.kind === 'unread') return { kind: 'unknown' };
  return bundleOfSource(ref, consent, reading.value, now);
}

function rowOf(
  kind: TargetKind,
  raw: RawTarget,
  bundleFrom: (source: BundleSource) => BundleState,
  { compat }: Scope,
): readonly InjectionTargetRow[] {
  const target = toTarget(kind, raw, compat);
  const { request, metadata: { namespace, name = '', deletionTimestamp } = {} } = target;
  if (request.kind === 'none' || deletionTimestamp !== undefined) return [];
  const bundle = request.kind === 'wanted' ? bundleFrom(request.source) : ({ kind: 'unknown' } as const);
  // Field ownership does not matter for the status.
  const plan = planInjection(kind, { ...target, own: [] }, bundle);
  return [{ kind: kind.kind, namespace, name, source: sourceOf(request), ...stateOf(plan, request) }];
}

const sourceOf = (request: InjectionRequest): string =>
  request.kind === 'wanted' && request.source.kind !== 'authority' ? originName(request.source) : 'authority';

function stateOf(
  plan: InjectionPlan,
  request: InjectionRequest,
): Pick<InjectionTargetRow, 'state' | 'message'> {
  switch (plan.kind) {
    case 'none':
      return { state: 'Empty', message: 'no webhook or endpoint of it uses a Service' };
    case 'wait':
      return { state: 'Unknown', message: unknownBundle(request) };
    case 'invalid':
      return { state: 'Invalid', message: plan.problem };
    case 'inject':
      return { state: 'Stale', message: `stale CA bundle in ${plan.stale.join(', ')}` };
    case 'current':
    case 'hand-back': // cannot occur: no fields are owned
      return plan.kind === 'current' && plan.problem !== undefined
        ? { state: 'Invalid', message: plan.problem }
        : { state: 'Current' };
  }
}

const unknownBundle = (request: InjectionRequest): string =>
  request.kind === 'wanted' && request.source.kind === 'api-server'
    ? 'the leader takes the bundle from its own connection to the API server'
    : 'the expected CA bundle could not be read';

function problemsOf({ state, message = '', ...row }: InjectionTargetRow): Problems {
  if (state !== 'Stale' && state !== 'Invalid') return [];
  return [{ object: `${row.kind} ${objectKey(row)}`, message }];
}
