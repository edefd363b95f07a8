/** What two API servers have to agree on in an answer. */

export interface Answer {
  readonly code: number;
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
  readonly details?: object | undefined;
  readonly warnings?: readonly string[];
  readonly object?: unknown;
  readonly items?: readonly string[];
}

type Fields = Readonly<Record<string, unknown>>;

/** The answer without what differs at each run, what other plugins set, and the words of compile errors. */
export function comparable({ object, ...answer }: Answer): unknown {
  const told =
    answer.code < 400 && object !== undefined ? { ...answer, object: stable(object as Fields) } : answer;
  return JSON.parse(JSON.stringify(told), (_key, value: unknown) =>
    typeof value === 'string' ? stableText(value) : value,
  ) as unknown;
}

/** An error ends at the next field, or at the end of the list. */
const stableText = (text: string): string =>
  text
    .replaceAll(/compilation failed: [^]*?(?=, spec\.|\]?$)/g, 'compilation failed')
    .replaceAll(/\bgen-\w{5}\b/g, 'gen-')
    .replaceAll(/in scheme "[^"]*"/g, 'in scheme'); // a path that depends on how the API server was built

const OF_THE_RUN = 'uid resourceVersion creationTimestamp deletionTimestamp lastTransitionTime time'.split(
  ' ',
);

function stable(given: Fields): Fields {
  const object = Object.fromEntries(
    Object.entries(given)
      .filter(([key]) => !OF_THE_RUN.includes(key))
      .map(([key, value]) => [key, stableValue(value)]),
  );
  const { name, generateName } = object;
  if (typeof generateName === 'string' && String(name).startsWith(generateName)) delete object.name;
  return object.kind === 'Pod' ? { ...object, spec: withoutPodPlugins(object.spec as Fields) } : object;
}

function stableValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(stableValue);
  return typeof value === 'object' && value !== null ? stable(value as Fields) : value;
}

const OF_OTHER_PLUGINS = ['enableServiceLinks', 'preemptionPolicy', 'priority'];

/** The spec without what other admission plugins and defaults of a real server set in Pods. */
function withoutPodPlugins({ tolerations = [], ...rest }: Fields): unknown {
  const own = (tolerations as readonly { readonly key?: string }[]).filter(
    ({ key = '' }) => !key.startsWith('node.kubernetes.io/'),
  );
  return {
    ...Object.fromEntries(Object.entries(rest).filter(([name]) => !OF_OTHER_PLUGINS.includes(name))),
    ...(own.length === 0 ? {} : { tolerations: own }),
  };
}
