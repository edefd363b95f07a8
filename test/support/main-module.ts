import { join } from 'node:path';

export const MAIN_OF_SOURCES = join(import.meta.dirname, '..', '..', 'src', 'main.ts');

export const MAIN_VARIABLE = 'GATEHOUSE_MAIN';

/** The module that starts Gatehouse: a bundle if the project of the suite makes one, otherwise the sources. */
export const MAIN = process.env[MAIN_VARIABLE] ?? MAIN_OF_SOURCES;
