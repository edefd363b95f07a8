/** Objects that carry a CA bundle for others, and whether it is the one of now. */
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import { objectKey, type KubeObject } from '../../../../json/kube-object.ts';
import { CABUNDLE_CONFIGMAP, INJECT_CABUNDLE } from '../../../../pki/annotations.ts';
import {
  injectionRequest,
  sourceName,
  type BundleSource,
  type InjectionRequest,
  type SourceRef,
} from '../../../../pki/injection/request.ts';
import { bundleOfSource, type BundleState, type SourceObject } from '../../../../pki/injection/source.ts';
import { toTarget, type RawTarget, type TargetKind } from '../../../../pki/injection/target.ts';
import { planInjection, type InjectionPlan } from '../../../../pki/injection/plan.ts';
import type { Scope, TargetsReading } from '../read-cluster.ts';
import { unreadOf, valueOf, type Reading, type Unread } from '../reading.ts';
import type { Attention, Judged } from './attention.ts';

export interface InjectionTargetsPart {
  readonly unread: readonly Unread[];
  /** By kind and name. */
  readonly items: readonly InjectionTargetRow[];
}

export interface InjectionTargetRow {
  readonly kind: TargetKind['kind'];
  readonly namespace?: string;
  readonly name: string;
  /** `authority`, or the object that it asks to have the bundle from. */
  readonly source: string;
  /**
   * `Current`; `Stale`: other certificates than those of now, or none; `Invalid`: its annotations, or its source, ask for what
   * cannot be; `Empty`: nothing in it takes a bundle; `Unknown`: what it should hold could not be read.
   */
  readonly state: 'Current' | 'Stale' | 'Invalid' | 'Empty' | 'Unknown';
  readonly message?: string;
}

interface TargetReadings {
  readonly targets: readonly TargetsReading[];
  readonly sources: ReadonlyMap<string, Reading<SourceObject | undefined>>;
}

/** Whether this object asks for a bundle, or is one that Gatehouse writes as a whole. */
export const isTarget = (kind: TargetKind, object: KubeObject, scope: Scope): boolean =>
  requestOf(kind, object, scope).kind !== 'none';

/** What its bundle comes from, beside the authority. */
export function sourcesOf(kind: TargetKind, object: KubeObject, scope: Scope): readonly SourceRef[] {
  const request = requestOf(kind, object, scope);
  return request.kind === 'wanted' && request.source.kind === 'object' ? [request.source.ref] : [];
}

const requestOf = (kind: TargetKind, object: KubeObject, scope: Scope): InjectionRequest =>
  injectionRequest(kind.kind, asking(kind, object, scope).metadata, scope.compat);

/** Gatehouse's own objects need no annotation to get the bundle. */
function asking<T extends KubeObject>(kind: TargetKind, object: T, { namespace }: Scope): T {
  const { metadata = {} } = object;
  const own = kind.kind === 'ConfigMap' ? `${namespace}/${CABUNDLE_CONFIGMAP}` : WEBHOOK_CONFIGURATION_NAME;
  const isOwn =
    (kind.kind === 'ConfigMap' || kind.kind.endsWith('WebhookConfiguration')) && objectKey(metadata) === own;
  return isOwn
    ? { ...object, metadata: { ...metadata, annotations: { [INJECT_CABUNDLE]: 'true' } } }
    : object;
}

/** @param bundle of the authority */
export function injectionTargetsPart(
  { targets, sources }: TargetReadings,
  bundle: BundleState,
  scope: Scope,
  now: Date,
): Judged<InjectionTargetsPart> {
  const bundleFrom = (source: BundleSource): BundleState =>
    source.kind === 'authority' ? bundle : ofObject(source, sources, now);
  const items = targets.flatMap(({ kind, objects }) =>
    (valueOf(objects) ?? []).flatMap((object) => rowOf(kind, asking(kind, object, scope), bundleFrom, scope)),
  );
  const unread = [
    ...targets.flatMap(({ kind, objects }) => unreadOf(`${kind.kind}s`, objects)),
    ...[...sources].flatMap(([name, reading]) => unreadOf(name, reading)),
  ];
  return { part: { unread, items }, attention: items.flatMap(attentionOf) };
}

function ofObject(
  { ref, consent }: Extract<BundleSource, { kind: 'object' }>,
  sources: TargetReadings['sources'],
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
  // Which fields Gatehouse owns in it is no question here.
  const plan = planInjection(kind, { ...target, own: [] }, bundle);
  return [
    {
      kind: kind.kind,
      ...(namespace === undefined ? {} : { namespace }),
      name,
      source: sourceOf(request),
      ...stateOf(plan),
    },
  ];
}

const sourceOf = (request: InjectionRequest): string =>
  request.kind === 'wanted' && request.source.kind === 'object'
    ? sourceName(request.source.ref)
    : 'authority';

function stateOf(plan: InjectionPlan): Pick<InjectionTargetRow, 'state' | 'message'> {
  switch (plan.kind) {
    case 'none':
      return { state: 'Empty', message: 'nothing in it is reached through a Service' };
    case 'wait':
      return { state: 'Unknown', message: 'what it should hold could not be read' };
    case 'invalid':
      return { state: 'Invalid', message: plan.problem };
    case 'inject':
      return { state: 'Stale', message: `not the CA bundle of now: ${plan.stale.join(', ')}` };
    case 'current':
    case 'hand-back': // of what Gatehouse owns, which was left out above
      return plan.kind === 'current' && plan.problem !== undefined
        ? { state: 'Invalid', message: plan.problem }
        : { state: 'Current' };
  }
}

function attentionOf({
  kind,
  namespace,
  name,
  state,
  message = '',
}: InjectionTargetRow): readonly Attention[] {
  if (state !== 'Stale' && state !== 'Invalid') return [];
  const object = `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
  return [{ part: 'injectionTargets', object, message }];
}
