/** The version in package.json. A test compares them: the file is not part of every build. */
export const VERSION = '0.1.0';
