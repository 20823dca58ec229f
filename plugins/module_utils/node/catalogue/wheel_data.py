# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Wheels of ansible-core: name version file sha256 targets (Python-architecture). By scripts/wheels.py."""

# ruff: noqa: E501

from __future__ import annotations

# Text, as in data.py.
TABLE = """
ansible-core 2.17.14 ansible_core-2.17.14-py3-none-any.whl
  34a49582a57c2f2af17ede2cefd3b3602a2d55d22089f3928570d52030cafa35 3.10-amd64,3.10-arm64
ansible-core 2.19.14 ansible_core-2.19.14-py3-none-any.whl
  d518d0e96fa75bedfe9b0a96d5b158aa712d092961824c115140c8677b88ff06 3.11-amd64,3.11-arm64
ansible-core 2.21.5 ansible_core-2.21.5-py3-none-any.whl
  08886f9f3e23d129aa98a01271c4a47833516e1cb7c737a246788cb474f41222 3.12-amd64,3.12-arm64,3.13-amd64,3.13-arm64
cffi 2.1.1 cffi-2.1.1-cp310-cp310-manylinux2014_aarch64.manylinux_2_17_aarch64.whl
  5a59cc1c4442bc3d5c703bf720b51138d0bfc173618807c9ee2490a7541dd3d9 3.10-arm64
cffi 2.1.1 cffi-2.1.1-cp310-cp310-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
  194cffa889098ced9976c3fc6340305e43f6303657d298da55366907c05c22d6 3.10-amd64
cffi 2.1.1 cffi-2.1.1-cp311-cp311-manylinux2014_aarch64.manylinux_2_17_aarch64.whl
  3311ed60d36f83378794e1009ac6258bafbf81f7888b4caa7b35a521e3f95813 3.11-arm64
cffi 2.1.1 cffi-2.1.1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
  34e261f78cb6ceaaa36f42f2613f4380d94d9c759a9c73c769ee6e0247364632 3.11-amd64
cffi 2.1.1 cffi-2.1.1-cp312-cp312-manylinux2014_aarch64.manylinux_2_17_aarch64.whl
  68e62fe11f30d5ca8289242866f0a5291402d8529ca2178ab8afc5c9694ae890 3.12-arm64
cffi 2.1.1 cffi-2.1.1-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
  c1453022f490d2459a11819d83ad1d586e9ff65a12ac3e705ffebd46d3685dcf 3.12-amd64
cffi 2.1.1 cffi-2.1.1-cp313-cp313-manylinux2014_aarch64.manylinux_2_17_aarch64.whl
  f16c709686a78c727bbbf059f92b0bf41c6fc60deec706d2dc19f529175a6125 3.13-arm64
cffi 2.1.1 cffi-2.1.1-cp313-cp313-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
  a931079504ecc49efed7744c476a5c343a92fabf66dec2db95edb1b2fdc770e2 3.13-amd64
cryptography 50.0.2 cryptography-50.0.2-cp311-abi3-manylinux_2_34_aarch64.whl
  87e9ce85beb6b328ba370cc6e6aea483c92617b4c95b1d33a49297eb662bfb04 3.11-arm64,3.12-arm64,3.13-arm64
cryptography 50.0.2 cryptography-50.0.2-cp311-abi3-manylinux_2_34_x86_64.whl
  9dab55f57c74c3cad24c323bacbbd04be4705ba6eb0d92e920b1fc4837ed5079 3.11-amd64,3.12-amd64,3.13-amd64
cryptography 50.0.2 cryptography-50.0.2-cp39-abi3-manylinux_2_34_aarch64.whl
  0ddc924c04591c2811ca024d62ecad4f7f6f08af8939c211438f48a16bd23602 3.10-arm64
cryptography 50.0.2 cryptography-50.0.2-cp39-abi3-manylinux_2_34_x86_64.whl
  1981f1db4630889b9ef7803fadef12b056f428cb6b85c27ba57b774793b6093c 3.10-amd64
jinja2 3.1.6 jinja2-3.1.6-py3-none-any.whl
  85ece4451f492d0c13c5dd7c13a64681a86afae63a5f347908daf103ce6d2f67 3.10-amd64,3.10-arm64,3.11-amd64,3.11-arm64,3.12-amd64,3.12-arm64,3.13-amd64,3.13-arm64
markupsafe 3.0.4 markupsafe-3.0.4-cp310-cp310-manylinux2014_aarch64.manylinux_2_17_aarch64.manylinux_2_28_aarch64.whl
  cf63c214fe879a65e69a386f915e36104fc84254ab141240f8854602d8e0be2a 3.10-arm64
markupsafe 3.0.4 markupsafe-3.0.4-cp310-cp310-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl
  d1aca03ede943eb80ab3d63bb082c84b7aab85ea83bd0fd0c200260945fb49d9 3.10-amd64
markupsafe 3.0.4 markupsafe-3.0.4-cp311-cp311-manylinux2014_aarch64.manylinux_2_17_aarch64.manylinux_2_28_aarch64.whl
  849dd2bb0e5e4ab2b71c7191726a4a8d5aa8a610daa584728cbee0b710ddc4ef 3.11-arm64
markupsafe 3.0.4 markupsafe-3.0.4-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl
  6da83a088f8ef93b2d483a8232a4dbf4d69d3d8496b568a03c56becac43e1808 3.11-amd64
markupsafe 3.0.4 markupsafe-3.0.4-cp312-cp312-manylinux2014_aarch64.manylinux_2_17_aarch64.manylinux_2_28_aarch64.whl
  6a45c3d514f2436064db00d7fc8778d888f0236ebfed649b53d13a59e69ad51b 3.12-arm64
markupsafe 3.0.4 markupsafe-3.0.4-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl
  8e124f974786f831d6043728e38296969d3579db8896fe004682f5758e613581 3.12-amd64
markupsafe 3.0.4 markupsafe-3.0.4-cp313-cp313-manylinux2014_aarch64.manylinux_2_17_aarch64.manylinux_2_28_aarch64.whl
  7018d4af1cd272e847aa5917983ab5e83e4f6579f9dbfecd4a79c0ca80b144c2 3.13-arm64
markupsafe 3.0.4 markupsafe-3.0.4-cp313-cp313-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl
  434139499bb20b502ed3baa1f169e618f924a97e7a777fea1a49446d80106cf6 3.13-amd64
packaging 26.3 packaging-26.3-py3-none-any.whl
  d7193f7c8e4e93f444fde0262bf90af30e16fa0ad0ad44cb553c87339b23cd1c 3.10-amd64,3.10-arm64,3.11-amd64,3.11-arm64,3.12-amd64,3.12-arm64,3.13-amd64,3.13-arm64
pycparser 3.11 pycparser-3.11-py3-none-any.whl
  51d5a8ba2be0bbe440b99d2112604c95bbbc3c2748a64260186c541e1729cd80 3.10-amd64,3.10-arm64
pycparser 3.12 pycparser-3.12-py3-none-any.whl
  a076f3f489b39b43ed13563a1dafe42447445bec2e294154ec5c57fcdda4c85e 3.11-amd64,3.11-arm64,3.12-amd64,3.12-arm64,3.13-amd64,3.13-arm64
pyyaml 6.0.3 pyyaml-6.0.3-cp310-cp310-manylinux2014_aarch64.manylinux_2_17_aarch64.manylinux_2_28_aarch64.whl
  b30236e45cf30d2b8e7b3e85881719e98507abed1011bf463a8fa23e9c3e98a8 3.10-arm64
pyyaml 6.0.3 pyyaml-6.0.3-cp310-cp310-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl
  9c7708761fccb9397fe64bbc0395abcae8c4bf7b0eac081e12b809bf47700d0b 3.10-amd64
pyyaml 6.0.3 pyyaml-6.0.3-cp311-cp311-manylinux2014_aarch64.manylinux_2_17_aarch64.manylinux_2_28_aarch64.whl
  10892704fc220243f5305762e276552a0395f7beb4dbf9b14ec8fd43b57f126c 3.11-arm64
pyyaml 6.0.3 pyyaml-6.0.3-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl
  b8bb0864c5a28024fac8a632c443c87c5aa6f215c0b126c449ae1a150412f31d 3.11-amd64
pyyaml 6.0.3 pyyaml-6.0.3-cp312-cp312-manylinux2014_aarch64.manylinux_2_17_aarch64.manylinux_2_28_aarch64.whl
  9149cad251584d5fb4981be1ecde53a1ca46c891a79788c0df828d2f166bda28 3.12-arm64
pyyaml 6.0.3 pyyaml-6.0.3-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl
  ba1cc08a7ccde2d2ec775841541641e4548226580ab850948cbfda66a1befcdc 3.12-amd64
pyyaml 6.0.3 pyyaml-6.0.3-cp313-cp313-manylinux2014_aarch64.manylinux_2_17_aarch64.manylinux_2_28_aarch64.whl
  ee2922902c45ae8ccada2c5b501ab86c36525b883eff4255313a253a3160861c 3.13-arm64
pyyaml 6.0.3 pyyaml-6.0.3-cp313-cp313-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl
  0f29edc409a6392443abf94b9cf89ce99889a1dd5376d94316ae5145dfedd5d6 3.13-amd64
resolvelib 1.0.1 resolvelib-1.0.1-py2.py3-none-any.whl
  d2da45d1a8dfee81bdd591647783e340ef3bcb104b54c383f70d422ef5cc7dbf 3.10-amd64,3.10-arm64
resolvelib 1.2.1 resolvelib-1.2.1-py3-none-any.whl
  fb06b66c8da04172d9e72a21d7d06186d8919e32ae5ab5cdf5b9d920be805ac2 3.11-amd64,3.11-arm64,3.12-amd64,3.12-arm64,3.13-amd64,3.13-arm64
typing-extensions 4.16.0 typing_extensions-4.16.0-py3-none-any.whl
  481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8 3.10-amd64,3.10-arm64
"""
