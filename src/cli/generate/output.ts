import { writeFileSync } from 'node:fs';

import { messageWithCauses } from '../../json/abort.ts';
import { printable } from '../../json/printable.ts';
import { print } from '../terminal/output.ts';

/** Writes the text, or says why there is none. @param file default: the standard output */
export async function answer(file: string | undefined, text: () => string | Promise<string>): Promise<0 | 2> {
  try {
    const generated = await text();
    if (file === undefined) await print(generated);
    else writeFileSync(file, generated);
    return 0;
  } catch (error) {
    for (const line of messageWithCauses(error).split('\n')) console.error(`error: ${printable(line)}`);
    return 2;
  }
}
