/** Other extensions that show ghost text: where two are active, the editor shows one at random. */

const NAMES: Readonly<Record<string, string>> = {
  'amazonwebservices.amazon-q-vscode': 'Amazon Q',
  'codeium.codeium': 'Windsurf (Codeium)',
  'continue.continue': 'Continue',
  'ggml-org.llama-vscode': 'llama.vscode',
  'github.copilot': 'GitHub Copilot',
  'github.copilot-chat': 'GitHub Copilot',
  'google.geminicodeassist': 'Gemini Code Assist',
  'huggingface.huggingface-vscode': 'llm-vscode',
  'rjmacarthy.twinny': 'twinny',
  'sourcegraph.cody-ai': 'Cody',
  'supermaven.supermaven': 'Supermaven',
  'tabbyml.vscode-tabby': 'Tabby',
  'tabnine.tabnine-vscode': 'Tabnine',
  'visualstudioexptteam.vscodeintellicode': 'IntelliCode',
};

/** Names of those among the installed and enabled extensions, each once. */
export function otherProviders(extensionIds: readonly string[]): string[] {
  const names = extensionIds.map((id) => NAMES[id.toLowerCase()]);
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

/** Undefined where all `active` ones have been told of before. */
export function noticeOf(active: readonly string[], told: readonly string[]): string | undefined {
  if (active.every((name) => told.includes(name))) {
    return undefined;
  }
  const [verb, them] = active.length === 1 ? ['shows', 'it'] : ['show', 'them'];
  return (
    `${active.join(' and ')} also ${verb} ghost text. The editor shows one suggestion at a time,` +
    ` so tabahead's may not appear; disable ${them}, or tabahead, to have one source.`
  );
}
