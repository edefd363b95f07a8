import { isJsonArray, isJsonObject, stringifyJson, type JsonValue } from './json.ts';

type Todo = { readonly text: string } | { readonly value: JsonValue };

/** JSON text that two values share if and only if they are equal: the keys of each object stand in one order. However deep. */
export function toCanonicalText(root: JsonValue): string {
  const parts: string[] = [];
  const todo: Todo[] = [{ value: root }];
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    if ('text' in next) parts.push(next.text);
    else if (isJsonArray(next.value)) putOff(todo, '[', next.value.map(itemOf), ']');
    else if (isJsonObject(next.value)) putOff(todo, '{', membersOf(next.value), '}');
    else parts.push(stringifyJson(next.value));
  }
  return parts.join('');
}

const itemOf = (value: JsonValue): readonly Todo[] => [{ value }];

function membersOf(object: Readonly<Record<string, JsonValue>>): readonly (readonly Todo[])[] {
  return Object.entries(object)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => [{ text: `${JSON.stringify(key)}:` }, { value }]);
}

/** The last first: a stack gives them back in order. */
function putOff(todo: Todo[], open: string, items: readonly (readonly Todo[])[], close: string): void {
  todo.push({ text: close });
  for (const [index, item] of [...items.entries()].reverse()) {
    for (const part of [...item].reverse()) todo.push(part);
    if (index > 0) todo.push({ text: ',' });
  }
  todo.push({ text: open });
}
