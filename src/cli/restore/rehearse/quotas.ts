/** Restored objects that a ResourceQuota would refuse. Single objects can pass a dry run although their sum cannot. */
import type { CelQuantity } from '../../../cel/library/define.ts';
import { addQuantities, compareQuantities, parseQuantity } from '../../../cel/library/quantity.ts';
import { isJsonObject, listIn, objectIn, textIn } from '../../../json/json.ts';
import { groupResourceName, type KubeObject } from '../../../json/kube-object.ts';
import { describeItem } from '../../../restore/backup/selection.ts';
import { type Finding, note, problem } from './findings.ts';
import type { StoredWrite, Target } from './replay.ts';

const QUOTAS = { group: '', resource: 'resourcequotas' };

/** @param refused descriptions of objects that use nothing, because the API server refuses them anyway */
export function quotaFindings(
  { contents, writes }: Pick<Target, 'contents' | 'writes'>,
  refused: ReadonlySet<string>,
): readonly Finding[] {
  const created = writes.filter((one) => one.oldObject === undefined && !refused.has(describeItem(one)));
  const restored = new Set(writes.map(describeItem));
  const later = new Set(created.map(describeItem));
  const quotas = contents.list(QUOTAS).map((object) => quotaOf(object, restored));
  return created.flatMap((write) => {
    const object = describeItem(write);
    later.delete(object);
    const governing = quotas.filter(({ namespace }) => namespace === write.namespace);
    const found = governing
      .filter(({ name }) => !later.has(name))
      .flatMap((quota) => excess(quota, object, write));
    if (!found.some(({ severity }) => severity === 'problem'))
      for (const quota of governing) use(quota, write);
    return found;
  });
}

type Quota = ReturnType<typeof quotaOf>;

/** The API server uses the status. It is empty until the controller of quotas has seen the quota. */
function quotaOf(object: KubeObject, restored: ReadonlySet<string>) {
  const { namespace, name = '' } = object.metadata ?? {};
  const description = describeItem({ resource: QUOTAS, namespace, name });
  const spec = objectIn(object, 'spec');
  const isScoped = listIn(spec, 'scopes').length > 0 || isJsonObject(spec.scopeSelector);
  const { hard: limits = objectIn(spec, 'hard') } = objectIn(object, 'status');
  return {
    name: description,
    namespace,
    isCertain: !isScoped && !restored.has(description),
    limits: Object.keys(isJsonObject(limits) ? limits : {}).flatMap((limit) => {
      const text = textIn(limits, limit);
      const hard = tryQuantity(text);
      const used = tryQuantity(textIn(object, 'status', 'used', limit)) ?? NOTHING;
      return hard === undefined ? [] : { limit, text, hard, used };
    }),
  };
}

function excess({ name, isCertain, limits }: Quota, object: string, write: StoredWrite): readonly Finding[] {
  const exceeded = limits.filter(({ limit, hard, used }) => {
    const amount = amountOf(limit, write);
    return amount.value > 0n && compareQuantities(addQuantities(used, amount), hard) > 0;
  });
  if (exceeded.length === 0) return [];
  const [severity, refuses] = isCertain ? [problem, 'refuses'] : [note, 'may refuse'];
  const hard = exceeded.map(({ limit, text }) => `${limit} ${text}`).join(', ');
  const message = `${name} ${refuses} it, because the sum exceeds ${hard}: raise the quota before the restore`;
  return [severity('OverQuota', object, message)];
}

function use({ limits }: Quota, write: StoredWrite): void {
  for (const one of limits) one.used = addQuantities(one.used, amountOf(one.limit, write));
}

const NOTHING = parseQuantity('0');
const ONE = parseQuantity('1');
const CLASS = '.storageclass.storage.k8s.io/';

/** At least this much: defaults of a LimitRange can add to it. */
function amountOf(limit: string, { resource, object }: StoredWrite): CelQuantity {
  const kind = groupResourceName(resource);
  if (limit === kind || limit === `count/${kind}`) return ONE;
  const spec = objectIn(object, 'spec');
  if (kind === 'pods') return ofPod(limit, spec);
  if (kind !== 'persistentvolumeclaims') return NOTHING;
  const ofClass = `${textIn(spec, 'storageClassName')}${CLASS}`;
  const name = limit.startsWith(ofClass) ? limit.slice(ofClass.length) : limit;
  if (name === kind) return ONE;
  if (name !== 'requests.storage') return NOTHING;
  return tryQuantity(textIn(spec, 'resources', 'requests', 'storage')) ?? NOTHING;
}

const BARE = ['cpu', 'memory', 'ephemeral-storage'];

function ofPod(limit: string, spec: object): CelQuantity {
  const [, field, name] =
    /^(requests|limits)\.(.+)$/.exec(BARE.includes(limit) ? `requests.${limit}` : limit) ?? [];
  if (field === undefined || name === undefined) return NOTHING;
  const amountIn = (of: unknown, ...fields: readonly string[]) =>
    fields.map((one) => tryQuantity(textIn(of, 'resources', one, name))).find((one) => one !== undefined);
  const ofContainers = listIn(spec, 'containers').map((one) => amountIn(one, field, 'limits') ?? NOTHING);
  return amountIn(spec, field) ?? ofContainers.reduce(addQuantities, NOTHING);
}

function tryQuantity(text: string): CelQuantity | undefined {
  try {
    return parseQuantity(text);
  } catch {
    return undefined;
  }
}
