// The limits of k8s.io/apiserver/pkg/endpoints/filters/warning.go, in characters.
const MOST_IN_ALL = 4 * 1024;
const MOST_OF_EACH = 256;

/**
 * The values of `Warning` headers: code, agent and the text as a quoted string in UTF-8. If all texts together are too
 * long, each is cut, and later ones are dropped once the cut ones are too long.
 */
export function warningHeaders(texts: readonly string[]): readonly string[] {
  const shown = texts.filter((text) => text !== '').map((text) => Array.from(text.replaceAll(CONTROL, ' ')));
  const isTooLong = shown.reduce((sum, text) => sum + text.length, 0) > MOST_IN_ALL;
  return (isTooLong ? cut(shown) : shown).map((text) => headerOf(text.join('')));
}

// eslint-disable-next-line no-control-regex -- headers allow no control characters
const CONTROL = /[\u0000-\u001f\u007f]/g;

function cut(texts: readonly (readonly string[])[]): readonly (readonly string[])[] {
  let sum = 0;
  return texts.flatMap((text) => {
    if (sum >= MOST_IN_ALL) return [];
    const part = text.slice(0, MOST_OF_EACH);
    sum += part.length;
    return [part];
  });
}

/** Node writes each character of a header as one byte. */
const headerOf = (text: string): string =>
  `299 - "${Buffer.from(text.replaceAll(/["\\]/g, '\\$&')).toString('latin1')}"`;
