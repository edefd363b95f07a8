/** Whether the API server trusts the serving cert of Gatehouse. */
import { devSessionOf } from '../../../../admission/webhooks/dev-session.ts';
import { CABUNDLE_CONFIGMAP, SERVING_SECRET } from '../../../../pki/annotations.ts';
import { isSameBundle } from '../../../../pki/authority/bundle.ts';
import { isTrustedBy } from '../../../../pki/x509/chain-trust.ts';
import { TARGET_KINDS, type RawTarget, type TargetKind } from '../../../../pki/injection/target.ts';
import type { Evidence } from '../evidence.ts';
import { ok, orElse, problem, someOf, warning, type Finding } from '../finding.ts';
import { judgeLook, valueOf } from '../look.ts';

const CHECK = 'ca-bundle';

type Bundles = Pick<
  Evidence,
  'namespace' | 'now' | 'bundle' | 'chain' | 'mutating' | 'validating' | 'converted'
>;

export const checkBundles = (evidence: Bundles): readonly Finding[] =>
  judgeLook(CHECK, evidence.bundle, (bundle) => {
    const { namespace, mutating, validating, converted } = evidence;
    if (bundle === undefined)
      return [
        problem(
          CHECK,
          `there is no CA bundle in the ConfigMap ${namespace}/${CABUNDLE_CONFIGMAP}`,
          `no leader has published one yet: kubectl -n ${namespace} logs deployment/gatehouse`,
        ),
      ];
    const ofConfiguration = (kind: TargetKind) => (live: RawTarget | undefined) =>
      live === undefined ? [] : judge(kind, live, bundle, evidence);
    return [
      ...judgeLook(CHECK, evidence.chain, (chain) => judgeChain(chain, bundle, evidence)),
      ...orElse(
        [
          ...judgeLook(CHECK, mutating, ofConfiguration(TARGET_KINDS.mutating)),
          ...judgeLook(CHECK, validating, ofConfiguration(TARGET_KINDS.validating)),
          ...judgeLook(CHECK, converted, (all) =>
            all.flatMap((one) => judge(TARGET_KINDS.customResourceDefinition, one, bundle, evidence)),
          ),
        ],
        ok(CHECK, `every entry of Gatehouse carries the bundle of the ConfigMap ${CABUNDLE_CONFIGMAP}`),
      ),
    ];
  });

function judgeChain(
  chain: string | undefined,
  bundle: string,
  { namespace, now }: Bundles,
): readonly Finding[] {
  const name = `Secret ${namespace}/${SERVING_SECRET}`;
  const next = `kubectl -n ${namespace} delete secret ${SERVING_SECRET} (the leader issues a new one at once)`;
  if (chain === undefined)
    return [
      problem(CHECK, `the ${name} holds no certificate`, `kubectl -n ${namespace} logs deployment/gatehouse`),
    ];
  return isTrustedBy(chain, bundle, now)
    ? [ok(CHECK, `the ConfigMap ${CABUNDLE_CONFIGMAP} verifies the serving cert`)]
    : [
        problem(
          CHECK,
          `the ConfigMap ${CABUNDLE_CONFIGMAP} does not verify the certificate in the ${name}: it has expired, or is of another authority`,
          next,
        ),
      ];
}

/** A bundle that is not the published one is stale; how bad that is, the serving cert tells. */
function judge(
  kind: TargetKind,
  object: RawTarget,
  bundle: string,
  { chain, now, namespace }: Bundles,
): readonly Finding[] {
  // A developer's machine has a root of its own: the check dev-session tells of it.
  const isLent = devSessionOf(object, now).kind !== 'none';
  const stale = kind
    .slots(object, '')
    .filter(({ reach }) => !isLent || reach === 'service')
    .map(({ name, present = '' }) => ({ name, pem: Buffer.from(present, 'base64').toString() }))
    .filter(({ pem }) => !isSameBundle(pem, bundle));
  if (stale.length === 0) return [];
  const served = valueOf(chain);
  const trusted = served !== undefined && stale.every(({ pem }) => isTrustedBy(served, pem, now));
  const what = `${kind.kind} ${object.metadata?.name ?? ''}: ${someOf(stale.map(({ name }) => name))}`;
  const next =
    'the leader mends that within a minute; if it stays, the checks leader and rivals say why: ' +
    `kubectl -n ${namespace} logs deployment/gatehouse`;
  return trusted
    ? [warning(CHECK, `${what} carries another bundle than the published one, which still does`, next)]
    : [
        problem(
          CHECK,
          `${what} carries a stale bundle, by which the API server does not trust Gatehouse`,
          next,
        ),
      ];
}
