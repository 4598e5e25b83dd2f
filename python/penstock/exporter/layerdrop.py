"""Layers that Hugging Face's models skip by chance (BART, OPT, Whisper, wav2vec 2).

Their forward compares a random number with `layerdrop` in a branch, which no graph can hold. It is
0 by default: no number is below it, and nothing has to be compared.
"""

from .errors import UserError


class Never:
    """As `layerdrop`: no number is below it, not even one that is not known yet."""

    def __gt__(self, number):
        return False


def decide(model):
    """Throws UserError where a layer is skipped more often than never."""
    for name, part in model.named_modules():
        for owner in (part, getattr(part, "config", None)):
            for attribute in ("layerdrop", "encoder_layerdrop", "decoder_layerdrop"):
                share = vars(owner).get(attribute) if owner is not None else None
                if isinstance(share, (int, float)) and share > 0:
                    raise UserError(f"module '{name}' skips layers by chance ({attribute} = "
                                    f"{share}), which a graph cannot\n"
                                    f"  Set {attribute}=0 in the model's configuration.")
                if share == 0:
                    vars(owner)[attribute] = Never()
